//! From dispatches to pipelines. A pipeline is compiled once for each text, in parallel with the
//! others that are missing.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use smallvec::SmallVec;

use super::ahead::Ahead;
use super::archive::Archive;
use super::closer::drop_here;
use super::fault::{Health, Scope};
use super::gate::{self, Passing};
use super::pool::{Lease, Needs};
use super::{own, turns};
use crate::caught::caught;
use crate::codegen::Dispatch;
use crate::error::{DeviceError, file_and_line};
use crate::lru::Lru;
use crate::run::threads::map_each;
use crate::trace::event;

/// Pipelines kept.
const PIPELINES: usize = 4096;

/// What a dispatch binds: bytes of parameters, then for each storage buffer whether it is written.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Shape {
    /// 0 where there are none: of the user's own kernels.
    params: u64,
    writes: SmallVec<[bool; 8]>,
}

impl Shape {
    fn of(dispatch: &Dispatch) -> Self {
        Self {
            params: (dispatch.params.len() * 4) as u64,
            writes: dispatch.buffers.iter().map(|binding| binding.writes).collect(),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.params)?;
        self.writes.iter().try_for_each(|&writes| f.write_str(if writes { "w" } else { "r" }))
    }
}

/// What a pipeline is made of.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    wgsl: String,
    /// The user's own entry point.
    entry: Option<String>,
    shape: Shape,
}

impl Key {
    fn of(dispatch: &Dispatch) -> Self {
        let entry = dispatch.own.as_ref().map(|own| own.entry.clone());
        Self { wgsl: dispatch.wgsl.clone(), entry, shape: Shape::of(dispatch) }
    }

    /// How the archive tells pipelines of one text apart.
    fn variant(&self) -> String {
        let Self { entry, shape, .. } = self;
        entry.as_ref().map_or_else(|| shape.to_string(), |entry| format!("{shape} {entry}"))
    }
}

/// The bind group layout of a [`Shape`], with the pipeline layout made of it.
pub(super) struct Layout {
    /// Never given twice on a device.
    pub id: u64,
    pub params: u64,
    pub group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

/// A compiled kernel.
pub(super) struct Pipeline {
    pub raw: wgpu::ComputePipeline,
    pub layout: Arc<Layout>,
    /// While it is dropped; after the rest.
    passing: Option<Passing<'static>>,
}

impl Drop for Pipeline {
    /// While the process ends, the driver is not asked to destroy anything.
    fn drop(&mut self) {
        self.passing = gate::pass().ok();
        if self.passing.is_none() {
            std::mem::forget((self.raw.clone(), Arc::clone(&self.layout)));
        }
    }
}

/// Everything about a plan's dispatches that is the same in each run.
pub(crate) struct Kernels {
    pub(super) dispatches: Vec<Dispatch>,
    /// One for each dispatch.
    pub(super) pipelines: Vec<Arc<Pipeline>>,
    pub(super) params: Option<Params>,
    pub(super) ahead: Ahead,
    /// What a run takes of the pool, once there was one that did not bring the parameters.
    pub(super) needs: OnceLock<Needs>,
    /// How long the last run that shared no submission took until its future saw the end, in nanoseconds; 0 before.
    pub(super) took: AtomicU64,
    /// Pipelines compiled for these kernels.
    pub compiled: u32,
    /// Pipelines found in the cache.
    pub hits: u32,
}

/// The parameters of all dispatches. They travel with the upload of the first run and stay on the device.
pub(super) struct Params {
    pub words: Vec<u32>,
    /// Where each dispatch's begin, in bytes.
    pub offsets: Vec<u32>,
    pub block: Lease,
    /// Whether a submitted run has carried them over.
    pub there: AtomicBool,
}

impl Kernels {
    /// What an error says that was being done.
    pub fn doing(&self) -> String {
        let labels: Vec<_> = self.dispatches.iter().map(|dispatch| &*dispatch.label).collect();
        format!("running a batch ({})", labels.join(", "))
    }

    /// A run of them was submitted.
    pub fn sent(&self) {
        if let Some(params) = &self.params {
            params.there.store(true, Ordering::Release);
        }
    }
}

impl Params {
    /// The words of all dispatches one after the other, each from a multiple of `alignment` bytes, and where
    /// each begins.
    pub fn pack(dispatches: &[Dispatch], alignment: u32) -> (Vec<u32>, Vec<u32>) {
        let alignment = (alignment as usize / 4).max(4);
        let mut words = Vec::new();
        let mut offsets = Vec::with_capacity(dispatches.len());
        for dispatch in dispatches {
            words.resize(words.len().next_multiple_of(alignment), 0);
            offsets.push((words.len() * 4) as u32);
            words.extend_from_slice(&dispatch.params);
        }
        (words, offsets)
    }
}

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

/// The pipelines of one device.
pub(super) struct Compiler {
    device: wgpu::Device,
    health: Arc<Health>,
    /// `None` where nothing is kept on disk.
    archive: Option<Archive>,
    next: AtomicU64,
    layouts: Mutex<HashMap<Shape, Arc<Layout>>>,
    pipelines: Mutex<Lru<Key, Arc<Pipeline>>>,
    /// Those that are being compiled.
    begun: Mutex<HashSet<Key>>,
    /// Told when one of them no longer is.
    ended: Condvar,
}

/// The right to compile a pipeline, until it is dropped.
struct Begun<'a> {
    compiler: &'a Compiler,
    key: &'a Key,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.compiler.begun().remove(self.key);
        self.compiler.ended.notify_all();
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        drop_here(std::mem::take(self.layouts.get_mut().unwrap_or_else(PoisonError::into_inner)));
    }
}

impl Compiler {
    pub fn new(device: wgpu::Device, health: Arc<Health>, archive: Option<Archive>) -> Self {
        Self {
            device,
            health,
            archive,
            next: AtomicU64::new(0),
            layouts: Mutex::default(),
            pipelines: Mutex::new(Lru::new(PIPELINES)),
            begun: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    fn pipelines(&self) -> MutexGuard<'_, Lru<Key, Arc<Pipeline>>> {
        self.pipelines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is left to compile.
    pub fn knows(&self, dispatches: &[Dispatch]) -> bool {
        let mut pipelines = self.pipelines();
        dispatches.iter().all(|dispatch| pipelines.get(&Key::of(dispatch)).is_some())
    }

    /// A pipeline for each dispatch, with how many of the distinct ones were compiled here and how many were there, or
    /// were being compiled for others.
    pub fn compile(
        &self,
        dispatches: &[Dispatch],
    ) -> Result<(Vec<Arc<Pipeline>>, u32, u32), DeviceError> {
        self.check_own(dispatches)?;
        let keys: Vec<Key> = dispatches.iter().map(Key::of).collect();
        let mut distinct: HashMap<&Key, Option<Arc<Pipeline>>> = HashMap::new();
        let mut missing = Vec::new();
        for (dispatch, key) in dispatches.iter().zip(&keys) {
            distinct.entry(key).or_insert_with(|| {
                let known = self.pipelines().get(key).cloned();
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
        Ok((pipelines, compiled, hits))
    }

    /// A pipeline that was missing, and whether it was compiled here: what somebody else compiles is waited for.
    fn make(&self, dispatch: &Dispatch, key: &Key) -> Result<(Arc<Pipeline>, bool), DeviceError> {
        let _begun = match self.begin(key) {
            Ok(begun) => begun,
            Err(known) => return Ok((known, false)),
        };
        // Whoever compiles may give up by a panic.
        let _at_work = gate::enter()?;
        let created = caught(|| self.create(dispatch, key));
        let pipeline = created.map_err(|reason| refused(dispatch, reason))??;
        let _forgotten = self.pipelines().insert(key.clone(), Arc::clone(&pipeline));
        Ok((pipeline, true))
    }

    /// The right to compile a pipeline, unless it is `known`, perhaps since somebody else had this right until now.
    fn begin<'a>(&'a self, key: &'a Key) -> Result<Begun<'a>, Arc<Pipeline>> {
        let mut begun = self.begun();
        loop {
            if let Some(known) = self.pipelines().get(key) {
                return Err(Arc::clone(known));
            }
            if begun.insert(key.clone()) {
                return Ok(Begun { compiler: self, key });
            }
            begun = self.ended.wait(begun).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn begun(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
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
            let bytes = own::workgroup_bytes(&dispatch.wgsl, &own.entry);
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
        let layout = self.layout(&key.shape);
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
        let turn = turns::long();
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
        Ok(Arc::new(Pipeline { raw, layout, passing: None }))
    }

    fn layout(&self, shape: &Shape) -> Arc<Layout> {
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = layouts.get(shape) {
            return Arc::clone(layout);
        }
        let layout = Arc::new(self.create_layout(shape));
        layouts.insert(shape.clone(), Arc::clone(&layout));
        layout
    }

    fn create_layout(&self, shape: &Shape) -> Layout {
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
        let group = self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("onetrip kernel"),
            entries: &entries,
        });
        let pipeline = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("onetrip kernel"),
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        Layout { id, params: shape.params, group, pipeline }
    }
}
