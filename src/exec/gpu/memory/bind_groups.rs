//! Bind groups, each made once for what it binds.

use crate::base::sync::{Mutex, MutexGuard};

use smallvec::SmallVec;

use super::layouts::Layout;
use super::pool::Block;
use crate::base::lru::Lru;
use crate::exec::gpu::compile::kernels::Params;
use crate::exec::gpu::driver::reaper::{self, drop_here};

/// Bind groups kept.
const MOST: usize = 4096;

/// The bind groups of a device.
pub(crate) struct BindGroups(Mutex<Lru<Key, wgpu::BindGroup>>);

/// What a bind group is made of.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    layout: u64,
    blocks: SmallVec<[u64; 8]>,
    /// How much of each block, where that is not all of it.
    bytes: Vec<u64>,
}

/// A block that a dispatch binds.
pub(crate) struct Bound<'a> {
    pub block: &'a Block,
    /// How much of it, where that is not all.
    pub bytes: Option<u64>,
}

impl Default for BindGroups {
    fn default() -> Self {
        Self(Mutex::new(Lru::new(MOST)))
    }
}

impl Drop for BindGroups {
    fn drop(&mut self) {
        let kept = self.0.get_mut();
        drop_here(std::mem::replace(kept, Lru::new(MOST)));
    }
}

impl BindGroups {
    fn kept(&self) -> MutexGuard<'_, Lru<Key, wgpu::BindGroup>> {
        self.0.lock()
    }

    /// The group that binds `params` and `blocks`, and whether it was made before.
    pub fn of(
        &self,
        device: &wgpu::Device,
        layout: &Layout,
        params: &Params,
        blocks: &[Bound<'_>],
    ) -> (wgpu::BindGroup, bool) {
        let ids = [params.block.id].into_iter().chain(blocks.iter().map(|bound| bound.block.id));
        let key = Key {
            layout: layout.id,
            blocks: ids.collect(),
            bytes: blocks.iter().filter_map(|bound| bound.bytes).collect(),
        };
        if let Some(group) = self.kept().get(&key) {
            return (group.clone(), true);
        }
        let group = create(device, layout, params, blocks);
        let forgotten = self.kept().insert(key, group.clone());
        release(forgotten);
        (group, false)
    }

    /// Takes out those that bind one of `blocks`.
    pub fn take(&self, blocks: &[u64]) -> Vec<wgpu::BindGroup> {
        self.kept().extract(|key| key.blocks.iter().any(|id| blocks.contains(id)))
    }

    /// Lets go of all: after a refusal, what was bound may be no good any more.
    pub fn clear(&self) {
        let all = self.kept().extract(|_| true);
        release(all);
    }
}

fn create(
    device: &wgpu::Device,
    layout: &Layout,
    params: &Params,
    blocks: &[Bound<'_>],
) -> wgpu::BindGroup {
    let of = |buffer, size| {
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset: 0, size })
    };
    let size = wgpu::BufferSize::new(layout.params);
    let params = size.map(|size| of(&params.block.buffer, Some(size)));
    let blocks = blocks
        .iter()
        .map(|&Bound { block, bytes }| of(&block.buffer, bytes.and_then(wgpu::BufferSize::new)));
    let all = (0..).zip(params.into_iter().chain(blocks));
    let entries: Vec<_> =
        all.map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource }).collect();
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some("onetrip kernel"),
        layout: &layout.group,
        entries: &entries,
    })
}

/// Drops bind groups on another thread: thousands of them, or one while a driver compiles, take it milliseconds.
pub(crate) fn release(groups: Vec<wgpu::BindGroup>) {
    if !groups.is_empty() {
        reaper::release(groups);
    }
}
