//! Bind groups, each made once for the buffers that it binds.

use smallvec::SmallVec;

use super::layouts::KernelLayout;
use super::pool::Block;
use crate::base::lru::Lru;
use crate::base::sync::Mutex;
use crate::exec::gpu::driver::{self, Calls, DriverOwned, WgpuHandle};

/// Bind groups kept.
const MOST: usize = 4096;

pub(crate) struct BindGroups(DriverOwned<Mutex<Lru<BindGroupKey, WgpuHandle<wgpu::BindGroup>>>>);

/// The objects that a bind group is made of.
#[derive(PartialEq, Eq, Hash)]
struct BindGroupKey {
    layout: u64,
    blocks: SmallVec<[u64; 8]>,
    /// The bytes of each block that is not bound whole.
    bytes: Vec<u64>,
}

/// A block that a dispatch binds.
pub(crate) struct BoundBlock<'a> {
    pub block: &'a Block,
    /// The bytes that are bound; `None` if that is the whole block.
    pub bytes: Option<u64>,
}

impl Default for BindGroups {
    fn default() -> Self {
        Self(DriverOwned::new(Mutex::new(Lru::new(MOST))))
    }
}

impl BindGroups {
    /// The group that binds `params` and `blocks`, and whether it was made before.
    pub fn of(
        &self,
        calls: &Calls<'_>,
        layout: &KernelLayout,
        params: Option<&Block>,
        blocks: &[BoundBlock<'_>],
    ) -> (WgpuHandle<wgpu::BindGroup>, bool) {
        let ids = params.map(|params| params.id).into_iter();
        let ids = ids.chain(blocks.iter().map(|bound| bound.block.id));
        let key = BindGroupKey {
            layout: layout.id,
            blocks: ids.collect(),
            bytes: blocks.iter().filter_map(|bound| bound.bytes).collect(),
        };
        if let Some(group) = self.0.lock().get(&key) {
            return (group.clone(), true);
        }
        let group = WgpuHandle::from(create(calls, layout, params, blocks));
        let evicted = self.0.lock().insert(key, group.clone());
        release(evicted);
        (group, false)
    }

    /// Forgets the groups that bind one of `blocks`, whose memory they keep alive.
    pub fn forget(&self, blocks: &[u64]) -> Vec<WgpuHandle<wgpu::BindGroup>> {
        self.0.lock().extract(|key| key.blocks.iter().any(|id| blocks.contains(id)))
    }

    /// Forgets all groups: after a refusal, the objects that they bind may be invalid.
    pub fn clear(&self) {
        let all = self.0.lock().extract(|_| true);
        release(all);
    }
}

fn create(
    calls: &Calls<'_>,
    layout: &KernelLayout,
    params: Option<&Block>,
    blocks: &[BoundBlock<'_>],
) -> wgpu::BindGroup {
    let of = |buffer, size| {
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset: 0, size })
    };
    let size = wgpu::BufferSize::new(layout.params);
    let params = params.zip(size).map(|(params, size)| of(&params.buffer, Some(size)));
    let blocks = blocks.iter().map(|&BoundBlock { block, bytes }| {
        of(&block.buffer, bytes.and_then(wgpu::BufferSize::new))
    });
    let all = (0..).zip(params.into_iter().chain(blocks));
    let entries: Vec<_> =
        all.map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource }).collect();
    calls.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some("onetrip kernel"),
        layout: &layout.group,
        entries: &entries,
    })
}

/// Drops bind groups on another thread.
pub(crate) fn release(groups: Vec<WgpuHandle<wgpu::BindGroup>>) {
    if !groups.is_empty() {
        driver::release(groups);
    }
}
