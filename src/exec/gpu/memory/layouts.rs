//! Layouts of bindings, each made once for kernels that bind alike.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::sync::Mutex;
use crate::codegen::Dispatch;
use crate::exec::gpu::driver::{Calls, DriverOwned, WgpuHandle};

/// The bindings of a dispatch: bytes of parameters, then for each storage buffer whether it is written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct BindingShape {
    /// 0 for custom kernels, which have none.
    params: u64,
    writes: SmallVec<[bool; 8]>,
}

impl BindingShape {
    pub fn of(dispatch: &Dispatch) -> Self {
        Self {
            params: (dispatch.params.len() * 4) as u64,
            writes: dispatch.buffers.iter().map(|binding| binding.writes).collect(),
        }
    }
}

impl fmt::Display for BindingShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.params)?;
        self.writes.iter().try_for_each(|&writes| f.write_str(if writes { "w" } else { "r" }))
    }
}

/// The bind group layout of a [`BindingShape`], with the pipeline layout made of it.
pub(crate) struct KernelLayout {
    /// No other layout of the device has it.
    pub id: u64,
    /// Bytes of parameters.
    pub params: u64,
    pub group: WgpuHandle<wgpu::BindGroupLayout>,
    pub pipeline: WgpuHandle<wgpu::PipelineLayout>,
}

/// The layouts of one device. None is ever removed.
pub(crate) struct Layouts(DriverOwned<Mutex<HashMap<BindingShape, Arc<KernelLayout>>>>);

impl Default for Layouts {
    fn default() -> Self {
        Self(DriverOwned::new(Mutex::default()))
    }
}

impl Layouts {
    pub fn get_or_create(&self, calls: &Calls<'_>, shape: &BindingShape) -> Arc<KernelLayout> {
        let mut layouts = self.0.lock();
        if let Some(layout) = layouts.get(shape) {
            return Arc::clone(layout);
        }
        let id = layouts.len() as u64;
        let layout = Arc::new(KernelLayout::new(calls, id, shape));
        layouts.insert(shape.clone(), Arc::clone(&layout));
        layout
    }
}

impl KernelLayout {
    fn new(calls: &Calls<'_>, id: u64, shape: &BindingShape) -> Self {
        let entry = |binding, ty, dynamic, size| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty,
                has_dynamic_offset: dynamic,
                min_binding_size: size,
            },
            count: None,
        };
        let params = NonZeroU64::new(shape.params);
        let params = params.map(|size| (wgpu::BufferBindingType::Uniform, true, Some(size)));
        let storage = shape
            .writes
            .iter()
            .map(|&writes| (wgpu::BufferBindingType::Storage { read_only: !writes }, false, None));
        let all = (0..).zip(params.into_iter().chain(storage));
        let entries: Vec<_> =
            all.map(|(binding, (ty, dynamic, size))| entry(binding, ty, dynamic, size)).collect();
        let group = calls.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("onetrip kernel"),
            entries: &entries,
        });
        let pipeline = calls.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("onetrip kernel"),
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        Self { id, params: shape.params, group: group.into(), pipeline: pipeline.into() }
    }
}
