//! From dispatches to pipelines. A pipeline is compiled once for each text, in parallel with the others that are missing.

use std::collections::HashMap;
use std::sync::Arc;

use super::pipelines::{Found, Key, Pipeline, Pipelines};
use crate::base::panic::caught;
use crate::base::trace::event;
use crate::codegen::Dispatch;
use crate::error::{DeviceError, file_and_line};
use crate::exec::gpu::compile::custom;
use crate::exec::gpu::compile::disk::DiskCache;
use crate::exec::gpu::driver::health::{Health, Scope};
use crate::exec::gpu::driver::{driver_lock, exit_guard};
use crate::exec::gpu::memory::layouts::Layouts;
use crate::exec::threads::map_each;

/// What an error says that was being done.
fn compiling(dispatch: &Dispatch) -> String {
    format!("compiling the kernel of {}", dispatch.label)
}

/// Of what a device cannot compile: the user's fault, or this crate's.
fn refused(dispatch: &Dispatch, reason: String) -> DeviceError {
    match &dispatch.own {
        Some(own) => DeviceError::Kernel { place: file_and_line(own.place), op: "wgsl", reason },
        None => DeviceError::Refused { doing: compiling(dispatch), reason },
    }
}

/// Compiles for one device.
pub(crate) struct Compiler {
    device: wgpu::Device,
    health: Arc<Health>,
    /// `None` where nothing is kept on disk.
    archive: Option<DiskCache>,
    layouts: Layouts,
    pipelines: Pipelines,
}

/// The pipelines of some dispatches.
pub(crate) struct Made {
    /// One for each dispatch.
    pub pipelines: Vec<Arc<Pipeline>>,
    /// Of the distinct ones, those that were compiled for this.
    pub compiled: u32,
    /// And those that were there, or were being compiled for others.
    pub hits: u32,
}

impl Compiler {
    pub fn new(device: wgpu::Device, health: Arc<Health>, archive: Option<DiskCache>) -> Self {
        let (layouts, pipelines) = (Layouts::default(), Pipelines::new());
        Self { device, health, archive, layouts, pipelines }
    }

    /// Whether nothing is left to compile.
    pub fn knows(&self, dispatches: &[Dispatch]) -> bool {
        dispatches.iter().all(|dispatch| self.pipelines.known(&Key::of(dispatch)).is_some())
    }

    pub fn compile(&self, dispatches: &[Dispatch]) -> Result<Made, DeviceError> {
        self.check_own(dispatches)?;
        let keys: Vec<Key> = dispatches.iter().map(Key::of).collect();
        let mut distinct: HashMap<&Key, Option<Arc<Pipeline>>> = HashMap::new();
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
        let made = map_each(missing.iter(), || (), |(), (dispatch, key)| self.make(dispatch, key));
        let mut compiled = 0;
        for (&(_, key), made) in missing.iter().zip(made) {
            let (pipeline, was_compiled) = made?;
            compiled += u32::from(was_compiled);
            distinct.insert(key, Some(pipeline));
        }
        let hits = distinct.len() as u32 - compiled;
        let pipelines = keys.iter().filter_map(|key| distinct[key].clone()).collect();
        Ok(Made { pipelines, compiled, hits })
    }

    /// A pipeline that was missing, and whether it was compiled here: what somebody else compiles is waited for.
    fn make(&self, dispatch: &Dispatch, key: &Key) -> Result<(Arc<Pipeline>, bool), DeviceError> {
        let begun = match self.pipelines.find(key) {
            Found::Known(pipeline) => return Ok((pipeline, false)),
            Found::Missing(begun) => begun,
        };
        // Whoever compiles may give up by a panic.
        let _at_work = exit_guard::enter()?;
        let created = caught(|| self.create(dispatch, key));
        let pipeline = created.map_err(|reason| refused(dispatch, reason))??;
        begun.keep(&pipeline);
        Ok((pipeline, true))
    }

    /// Refuses kernels of the user's own of more workgroups, or of more memory of one, than the device has: nobody else
    /// checks that. Those of this crate keep to the limits.
    fn check_own(&self, dispatches: &[Dispatch]) -> Result<(), DeviceError> {
        let limits = self.device.limits();
        let most = limits.max_compute_workgroups_per_dimension;
        let memory = limits.max_compute_workgroup_storage_size;
        for dispatch in dispatches {
            let Some(own) = &dispatch.own else { continue };
            let [x, y, z] = dispatch.groups;
            if x.max(y).max(z) > most {
                let reason = format!(
                    "{x}, {y} and {z} workgroups are asked for, and at most {most} may be along x, y and z"
                );
                return Err(refused(dispatch, reason));
            }
            let bytes = custom::workgroup_bytes(&dispatch.wgsl, &own.entry);
            if bytes > memory.into() {
                let reason = format!(
                    "its variables of a workgroup take {bytes} bytes, and at most {memory} are there"
                );
                return Err(refused(dispatch, reason));
            }
        }
        Ok(())
    }

    fn create(&self, dispatch: &Dispatch, key: &Key) -> Result<Arc<Pipeline>, DeviceError> {
        let scope = Scope::open(&self.device, &self.health);
        let layout = self.layouts.find(&self.device, &key.shape);
        let entry = self.archive.as_ref().map(|archive| archive.find(&key.wgsl, &key.variant()));
        let source = wgpu::ShaderModuleDescriptor {
            label: Some(&dispatch.label),
            source: wgpu::ShaderSource::Wgsl(dispatch.wgsl.as_str().into()),
        };
        let module = if dispatch.own.is_some() {
            self.device.create_shader_module(source)
        } else {
            // SAFETY: the text comes from this crate's code generator alone, whose kernels index in
            // range, divide by nothing that is 0 and end their loops, by construction.
            unsafe {
                let checks = wgpu::ShaderRuntimeChecks::unchecked();
                self.device.create_shader_module_trusted(source, checks)
            }
        };
        let turn = driver_lock::long();
        let raw = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&dispatch.label),
            layout: Some(&layout.pipeline),
            module: &module,
            entry_point: Some(key.entry.as_deref().unwrap_or("main")),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: dispatch.own.is_some(),
                ..Default::default()
            },
            cache: entry.as_ref().map(|entry| &entry.cache),
        });
        drop(turn);
        scope.close_alone(|| compiling(dispatch)).map_err(|error| match error {
            DeviceError::Refused { reason, .. } => refused(dispatch, reason),
            error => error,
        })?;
        self.health.check(&self.device)?;
        event!(DEBUG, "compiled", kernel = dispatch.label.as_str());
        if let (Some(archive), Some(entry)) = (&self.archive, entry) {
            archive.keep(entry);
        }
        Ok(Arc::new(Pipeline::new(raw, layout)))
    }
}
