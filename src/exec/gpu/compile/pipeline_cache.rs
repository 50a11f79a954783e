//! The pipelines of a device: a bounded number of them, each compiled by one thread however many need it at once.

use std::sync::Arc;

use crate::base::lru::Lru;
use crate::base::single_flight::{Begin, SingleFlight};
use crate::base::sync::Mutex;
use crate::codegen::Dispatch;
use crate::exec::gpu::driver::{DriverOwned, WgpuHandle};
use crate::exec::gpu::memory::{BindingShape, KernelLayout};

/// Pipelines kept.
const PIPELINES: usize = 4096;

/// The parts that a pipeline is made of.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PipelineKey {
    pub wgsl: String,
    /// The entry point of a custom kernel.
    pub entry: Option<String>,
    pub shape: BindingShape,
}

impl PipelineKey {
    pub fn of(dispatch: &Dispatch) -> Self {
        let entry = dispatch.custom.as_ref().map(|module| module.entry.clone());
        Self { wgsl: dispatch.wgsl.clone(), entry, shape: BindingShape::of(dispatch) }
    }

    /// The name by which the cache on disk tells pipelines of one text apart.
    pub fn variant(&self) -> String {
        let Self { entry, shape, .. } = self;
        entry.as_ref().map_or_else(|| shape.to_string(), |entry| format!("{shape} {entry}"))
    }
}

pub(crate) struct Pipeline(DriverOwned<(WgpuHandle<wgpu::ComputePipeline>, Arc<KernelLayout>)>);

impl Pipeline {
    pub fn new(raw: wgpu::ComputePipeline, layout: Arc<KernelLayout>) -> Self {
        Self(DriverOwned::new((raw.into(), layout)))
    }

    pub fn raw(&self) -> &wgpu::ComputePipeline {
        &self.0.0
    }

    pub fn layout(&self) -> &KernelLayout {
        &self.0.1
    }
}

pub(crate) struct Pipelines {
    known: Mutex<Lru<PipelineKey, Arc<Pipeline>>>,
    compiling: SingleFlight<PipelineKey>,
}

impl Default for Pipelines {
    fn default() -> Self {
        Self { known: Mutex::new(Lru::new(PIPELINES)), compiling: SingleFlight::default() }
    }
}

impl Pipelines {
    pub fn known(&self, key: &PipelineKey) -> Option<Arc<Pipeline>> {
        self.known.lock().get(key).cloned()
    }

    pub fn forget(&self) {
        let forgotten = self.known.lock().extract(|_| true);
        drop(forgotten);
    }

    /// The pipeline, and whether `compile` made it here. While another thread compiles it, this one waits: not for long,
    /// since a thread that compiles waits for nobody.
    pub fn get<E>(
        &self,
        key: &PipelineKey,
        compile: impl FnOnce() -> Result<Arc<Pipeline>, E>,
    ) -> Result<(Arc<Pipeline>, bool), E> {
        let maker = match self.compiling.begin_blocking(key, || self.known(key)) {
            Begin::Made(pipeline) => return Ok((pipeline, false)),
            Begin::Make(maker) => maker,
        };
        let pipeline = compile()?;
        let evicted = self.known.lock().insert(key.clone(), Arc::clone(&pipeline));
        // The others go on before the evicted pipelines are dropped, which takes long.
        drop(maker);
        drop(evicted);
        Ok((pipeline, true))
    }
}
