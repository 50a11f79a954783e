//! What runs of a plan have in common on a device: the pipelines of its dispatches, and their parameters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::compiler::Made;
use super::pipelines::Pipeline;
use crate::codegen::Dispatch;
use crate::error::DeviceError;
use crate::exec::gpu::driver::exit_guard::ExitGuard;
use crate::exec::gpu::memory::pool::{Kind, Lease, Needs};
use crate::exec::gpu::submit::ahead::Ahead;
use crate::exec::gpu::{Gpu, GpuCounts, Shared};
use crate::exec::threads::{begin, off_thread};

/// Everything about a plan's dispatches that is the same in each run.
pub(crate) struct Kernels {
    pub(crate) dispatches: Vec<Dispatch>,
    /// One for each dispatch.
    pub(crate) pipelines: Vec<Arc<Pipeline>>,
    pub(crate) params: Option<Params>,
    pub(crate) ahead: Ahead,
    /// What a run takes of the pool, once there was one that did not bring the parameters.
    pub(crate) needs: OnceLock<Needs>,
    /// How long the last run that shared no submission took until its future saw the end, in nanoseconds; 0 before.
    pub(crate) took: AtomicU64,
    /// Pipelines compiled for these kernels.
    pub compiled: u32,
    /// Pipelines that were there, or were being compiled for others.
    pub hits: u32,
}

/// The parameters of all dispatches. They travel with the upload of the first run and stay on the device.
pub(crate) struct Params {
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

impl Gpu {
    /// Compiles what is missing, several at once, off the awaiting thread. So is memory for parameters allocated: while a
    /// driver compiles for others, it takes tens of milliseconds to allocate. `held` is held meanwhile, whether the future
    /// is polled or not.
    pub async fn compile(
        &self,
        dispatches: Vec<Dispatch>,
        held: impl Send + 'static,
    ) -> Result<Arc<Kernels>, DeviceError> {
        if self.0.has_room_for_params(&dispatches) && self.0.compiler.knows(&dispatches) {
            return self.compile_here(dispatches);
        }
        ExitGuard::of_process();
        let gpu = self.clone();
        let compile = move || {
            let _held = held;
            gpu.compile_here(dispatches)
        };
        off_thread(compile).await
    }

    /// Begins to compile what is missing, on other threads, and says when that is done.
    pub fn begin_compiling(
        &self,
        dispatches: Vec<Dispatch>,
    ) -> impl Future<Output = Result<(), DeviceError>> + use<> {
        let gpu = self.clone();
        let compiling = begin(move || gpu.compile_here(dispatches));
        async { compiling.await.map(drop) }
    }

    pub(crate) fn compile_here(
        &self,
        dispatches: Vec<Dispatch>,
    ) -> Result<Arc<Kernels>, DeviceError> {
        let shared = &self.0;
        shared.health.check(&shared.device)?;
        let Made { pipelines, compiled, hits } = shared.compiler.compile(&dispatches)?;
        let (words, offsets) = shared.params(&dispatches);
        let params = if words.is_empty() {
            None
        } else {
            let bytes = (words.len() * 4) as u64;
            let block = shared.lease(Kind::Params, bytes, &mut GpuCounts::default())?;
            Some(Params { words, offsets, block, there: AtomicBool::new(false) })
        };
        Ok(Arc::new(Kernels {
            dispatches,
            pipelines,
            params,
            ahead: Ahead::default(),
            needs: OnceLock::new(),
            took: AtomicU64::new(0),
            compiled,
            hits,
        }))
    }
}

impl Shared {
    /// The parameters of `dispatches` as they will lie in one block, and where each one's begin.
    fn params(&self, dispatches: &[Dispatch]) -> (Vec<u32>, Vec<u32>) {
        Params::pack(dispatches, self.device.limits().min_uniform_buffer_offset_alignment)
    }

    /// Whether a block for the parameters of `dispatches` lies idle, or none is needed.
    pub(crate) fn has_room_for_params(&self, dispatches: &[Dispatch]) -> bool {
        let bytes = 4 * self.params(dispatches).0.len() as u64;
        let has = |class| self.pool.has(&Needs::from([(class, 1)]));
        bytes == 0 || self.class(Kind::Params, bytes).is_ok_and(has)
    }
}
