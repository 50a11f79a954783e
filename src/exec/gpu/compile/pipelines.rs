//! The pipelines of a device: a bounded number of them, each compiled by one thread however many need it at once.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::lru::Lru;
use crate::base::sync::{Condvar, Mutex, MutexGuard};
use crate::codegen::Dispatch;
use crate::exec::gpu::driver::exit_guard::{self, DriverCall};
use crate::exec::gpu::memory::layouts::{Layout, Shape};

/// Pipelines kept.
const PIPELINES: usize = 4096;

/// What a pipeline is made of.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub wgsl: String,
    /// The user's own entry point.
    pub entry: Option<String>,
    pub shape: Shape,
}

impl Key {
    pub fn of(dispatch: &Dispatch) -> Self {
        let entry = dispatch.own.as_ref().map(|own| own.entry.clone());
        Self { wgsl: dispatch.wgsl.clone(), entry, shape: Shape::of(dispatch) }
    }

    /// How the archive tells pipelines of one text apart.
    pub fn variant(&self) -> String {
        let Self { entry, shape, .. } = self;
        entry.as_ref().map_or_else(|| shape.to_string(), |entry| format!("{shape} {entry}"))
    }
}

/// A compiled kernel.
pub(crate) struct Pipeline {
    pub raw: wgpu::ComputePipeline,
    pub layout: Arc<Layout>,
    /// While it is dropped; after the rest.
    passing: Option<DriverCall<'static>>,
}

impl Pipeline {
    pub fn new(raw: wgpu::ComputePipeline, layout: Arc<Layout>) -> Self {
        Self { raw, layout, passing: None }
    }
}

impl Drop for Pipeline {
    /// While the process ends, the driver is not asked to destroy anything.
    fn drop(&mut self) {
        self.passing = exit_guard::pass().ok();
        if self.passing.is_none() {
            std::mem::forget((self.raw.clone(), Arc::clone(&self.layout)));
        }
    }
}

/// The pipelines of one device.
pub(crate) struct Pipelines {
    state: Mutex<State>,
    /// Told when one is no longer being compiled.
    ended: Condvar,
}

struct State {
    known: Lru<Key, Arc<Pipeline>>,
    /// Those that are being compiled.
    begun: HashSet<Key>,
}

/// What there is of a pipeline.
pub(crate) enum Found<'a> {
    Known(Arc<Pipeline>),
    /// Nothing: whoever asked is to compile it.
    Missing(Begun<'a>),
}

impl Pipelines {
    pub fn new() -> Self {
        let state = State { known: Lru::new(PIPELINES), begun: HashSet::new() };
        Self { state: Mutex::new(state), ended: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The pipeline, if it was compiled.
    pub fn known(&self, key: &Key) -> Option<Arc<Pipeline>> {
        self.state().known.get(key).cloned()
    }

    /// The pipeline, or the right to compile it. While somebody else has that, this thread waits: not for long, as who
    /// compiles waits for nobody.
    pub fn find<'a>(&'a self, key: &'a Key) -> Found<'a> {
        let mut state = self.state();
        loop {
            if let Some(known) = state.known.get(key) {
                return Found::Known(Arc::clone(known));
            }
            if state.begun.insert(key.clone()) {
                return Found::Missing(Begun { pipelines: self, key });
            }
            state = self.ended.wait(state);
        }
    }
}

/// The right to compile a pipeline, until it is dropped.
pub(crate) struct Begun<'a> {
    pipelines: &'a Pipelines,
    key: &'a Key,
}

impl Begun<'_> {
    /// Makes the pipeline known to whoever waits for it.
    pub fn keep(self, pipeline: &Arc<Pipeline>) {
        let known = Arc::clone(pipeline);
        let forgotten = self.pipelines.state().known.insert(self.key.clone(), known);
        // Before those are dropped, which takes long.
        drop(self);
        drop(forgotten);
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.pipelines.state().begun.remove(self.key);
        self.pipelines.ended.notify_all();
    }
}
