//! From dispatches to pipelines. A pipeline is compiled once for each text, in parallel with the others that are missing.

use std::collections::HashMap;
use std::sync::Arc;

use super::custom;
use super::disk::PipelineStore;
use super::pipeline_cache::{Pipeline, PipelineKey, Pipelines};
use crate::base::disk::cache::Store;
use crate::base::process::caught;
use crate::base::trace::event;
use crate::codegen::Dispatch;
use crate::error::DeviceError;
use crate::exec::gpu::driver::{Calls, GuardedDevice};
use crate::exec::gpu::memory::Layouts;
use crate::exec::threads::map_each;

/// The activity that an error names.
fn compiling(dispatch: &Dispatch) -> String {
    format!("compiling the kernel of {}", dispatch.label)
}

/// The error for a kernel that the device cannot compile: a fault of the user, or of this crate.
fn refused(dispatch: &Dispatch, reason: String) -> DeviceError {
    match &dispatch.custom {
        Some(module) => DeviceError::Kernel { place: module.place.to_string(), op: "wgsl", reason },
        None => DeviceError::Refused { doing: compiling(dispatch), reason },
    }
}

pub(crate) struct PipelineCompiler {
    device: Arc<GuardedDevice>,
    /// `None` if no pipelines are kept on disk.
    disk: Option<PipelineStore>,
    layouts: Layouts,
    pipelines: Pipelines,
}

/// The pipelines of some dispatches.
pub(crate) struct Compiled {
    /// One for each dispatch.
    pub pipelines: Vec<Arc<Pipeline>>,
    /// The number of distinct pipelines that were compiled for this.
    pub compiled: u32,
    /// The number of distinct pipelines that were there, or were being compiled for others.
    pub hits: u32,
}

impl PipelineCompiler {
    pub fn new(device: Arc<GuardedDevice>, store: Option<Arc<Store>>) -> Self {
        let disk = store.and_then(|store| PipelineStore::open(&device, store));
        Self { device, disk, layouts: Layouts::default(), pipelines: Pipelines::default() }
    }

    /// Forgets all pipelines: one of them is none.
    pub fn forget(&self) {
        self.pipelines.forget();
    }

    /// Returns whether all pipelines of `dispatches` are compiled.
    pub fn knows(&self, dispatches: &[Dispatch]) -> bool {
        dispatches.iter().all(|dispatch| self.pipelines.known(&PipelineKey::of(dispatch)).is_some())
    }

    /// The pipelines of `dispatches`. Those that are missing are compiled in parallel.
    ///
    /// # Errors
    /// [`DeviceError::Kernel`] for a bad custom kernel, [`DeviceError::Refused`] for another one; if the device is lost.
    pub fn pipelines(&self, dispatches: &[Dispatch]) -> Result<Compiled, DeviceError> {
        self.check_custom(dispatches)?;
        let keys: Vec<PipelineKey> = dispatches.iter().map(PipelineKey::of).collect();
        let mut distinct: HashMap<&PipelineKey, Option<Arc<Pipeline>>> = HashMap::new();
        let mut missing = Vec::new();
        for (dispatch, key) in dispatches.iter().zip(&keys) {
            distinct.entry(key).or_insert_with(|| {
                let known = self.pipelines.known(key);
                if known.is_none() {
                    missing.push((dispatch, key));
                }
                known
            });
        }
        let made =
            map_each(missing.iter(), || (), |(), (dispatch, key)| self.pipeline(dispatch, key));
        let mut compiled = 0;
        for (&(_, key), made) in missing.iter().zip(made) {
            let (pipeline, was_compiled) = made?;
            compiled += u32::from(was_compiled);
            distinct.insert(key, Some(pipeline));
        }
        let hits = distinct.len() as u32 - compiled;
        let pipelines = keys.iter().filter_map(|key| distinct[key].clone()).collect();
        Ok(Compiled { pipelines, compiled, hits })
    }

    /// A pipeline that was missing, and whether it was compiled here.
    fn pipeline(
        &self,
        dispatch: &Dispatch,
        key: &PipelineKey,
    ) -> Result<(Arc<Pipeline>, bool), DeviceError> {
        self.pipelines.get(key, || {
            // A driver may give up by a panic.
            let created = caught(|| self.create(dispatch, key));
            created.map_err(|reason| refused(dispatch, reason))?
        })
    }

    /// Refuses custom kernels beyond the limits of the device. wgpu checks neither workgroups nor their memory, and tells
    /// of too many threads late. Kernels of this crate keep to the limits.
    fn check_custom(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        let limits = self.device.device_limits();
        for dispatch in dispatches {
            let Some(module) = &dispatch.custom else { continue };
            let (threads, bytes) = custom::workgroup(&dispatch.wgsl, &module.entry);
            if let Some(excess) = excess_over(&limits, dispatch.groups, threads, bytes) {
                return Err(refused(dispatch, format!("`{}` {excess}", module.entry)));
            }
        }
        Ok(())
    }

    fn create(&self, dispatch: &Dispatch, key: &PipelineKey) -> Result<Arc<Pipeline>, DeviceError> {
        let create = |calls: &Calls<'_>| {
            let entry = self.disk.as_ref();
            let entry = entry.map(|disk| disk.open_entry(calls, &key.wgsl, &key.variant()));
            let layout = self.layouts.get_or_create(calls, &key.shape);
            let raw = calls.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&dispatch.label),
                layout: Some(&layout.pipeline),
                module: &module(calls, dispatch),
                entry_point: Some(key.entry.as_deref().unwrap_or("main")),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: dispatch.custom.is_some(),
                    ..Default::default()
                },
                cache: entry.as_ref().map(|entry| &*entry.cache),
            });
            Ok((Pipeline::new(raw, layout), entry))
        };
        let created = self.device.scoped_work(|| compiling(dispatch), create);
        let (pipeline, entry) = created.map_err(|error| match error {
            DeviceError::Refused { reason, .. } => refused(dispatch, reason),
            error => error,
        })?;
        self.device.check_uncaptured_errors()?;
        event!(DEBUG, "compiled", kernel = dispatch.label.as_str());
        if let (Some(disk), Some(entry)) = (&self.disk, entry) {
            disk.keep(entry);
        }
        Ok(Arc::new(pipeline))
    }
}

/// The first limit that workgroups of `threads`, with `bytes` of memory, exceed, and the cure.
fn excess_over(
    limits: &wgpu::Limits,
    groups: [u32; 3],
    threads: [u32; 3],
    bytes: u64,
) -> Option<String> {
    const SPREAD: &str = "spread them along x, y and z, or compute several elements in a thread";
    const SMALLER: &str = "make `@workgroup_size` smaller, and `Wgsl::groups` larger";
    let [x, y, z] = threads.map(u64::from);
    macro_rules! asked {
        ($($asked:expr, $what:literal, $limit:ident, $cure:expr;)+) => {
            [$(($asked, $what, stringify!($limit), u64::from(limits.$limit), $cure)),+]
        };
    }
    let asked = asked! {
        groups[0].into(), "workgroups along x", max_compute_workgroups_per_dimension, SPREAD;
        groups[1].into(), "workgroups along y", max_compute_workgroups_per_dimension, SPREAD;
        groups[2].into(), "workgroups along z", max_compute_workgroups_per_dimension, SPREAD;
        x * y * z, "threads in a workgroup", max_compute_invocations_per_workgroup, SMALLER;
        x, "threads of a workgroup along x", max_compute_workgroup_size_x, SMALLER;
        y, "threads of a workgroup along y", max_compute_workgroup_size_y, SMALLER;
        z, "threads of a workgroup along z", max_compute_workgroup_size_z, SMALLER;
        bytes, "bytes of `var<workgroup>`", max_compute_workgroup_storage_size, "make these variables smaller";
    };
    let (asked, what, limit, most, cure) =
        asked.into_iter().find(|&(asked, .., most, _)| asked > most)?;
    Some(format!("has {asked} {what}, and the device allows {most} (`{limit}`); {cure}"))
}

/// The module of a kernel. Custom kernels are compiled with all checks.
fn module(calls: &Calls<'_>, dispatch: &Dispatch) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor {
        label: Some(&dispatch.label),
        source: wgpu::ShaderSource::Wgsl(dispatch.wgsl.as_str().into()),
    };
    if dispatch.custom.is_some() {
        return calls.create_shader_module(descriptor);
    }
    // SAFETY: the text comes from this crate's code generator alone, whose kernels index in
    // range, divide by nothing that is 0 and end their loops, by construction.
    unsafe { calls.create_unchecked_shader_module(descriptor) }
}
