//! The part of a plan's runs that is the same in each: the pipelines of its dispatches, and their parameters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::compiler::{Compiled, PipelineCompiler};
use super::pipeline_cache::Pipeline;
use crate::codegen::Dispatch;
use crate::error::DeviceError;
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::driver::GuardedDevice;
use crate::exec::gpu::memory::{DeviceMemory, Kind, Lease, NextRun};

/// The compiled dispatches of a plan.
pub(crate) struct Kernels {
    pub dispatches: Vec<Dispatch>,
    /// One for each dispatch.
    pub pipelines: Vec<Arc<Pipeline>>,
    pub params: Option<Params>,
    pub next_run: Arc<NextRun>,
    /// Nanoseconds until the future of the last run that shared no submission saw its end; 0 before the first.
    last_run: AtomicU64,
    /// Pipelines compiled for these kernels.
    pub compiled: u32,
    /// Pipelines that were there, or were being compiled for others.
    pub hits: u32,
}

/// The parameters of all dispatches. They travel with the upload of the first run and stay on the device.
pub(crate) struct Params {
    pub words: Vec<u32>,
    /// The start of each dispatch's parameters, in bytes.
    pub offsets: Vec<u32>,
    pub block: Lease,
    /// True if a submitted run has carried them over.
    is_on_device: AtomicBool,
}

impl Kernels {
    /// Compiles the pipelines that are missing, and leases memory for parameters.
    pub fn compile(
        compiler: &PipelineCompiler,
        device: &GuardedDevice,
        memory: &DeviceMemory,
        dispatches: Vec<Dispatch>,
    ) -> Result<Self, DeviceError> {
        device.check_uncaptured_errors()?;
        let Compiled { pipelines, compiled, hits } = compiler.pipelines(&dispatches)?;
        let (words, offsets) = Params::pack(&dispatches, alignment(device));
        let params = if words.is_empty() {
            None
        } else {
            let bytes = (words.len() * 4) as u64;
            let block = memory.lease(Kind::Params, bytes, &mut GpuCounts::default())?;
            Some(Params { words, offsets, block, is_on_device: AtomicBool::new(false) })
        };
        let (next_run, last_run) = (Arc::default(), AtomicU64::new(0));
        Ok(Self { dispatches, pipelines, params, next_run, last_run, compiled, hits })
    }

    /// The activity that an error names.
    pub fn doing(&self) -> String {
        let labels: Vec<_> = self.dispatches.iter().map(|dispatch| &*dispatch.label).collect();
        format!("running a batch ({})", labels.join(", "))
    }

    /// Notes that a run of them was submitted.
    pub fn note_submission(&self) {
        if let Some(params) = &self.params {
            params.is_on_device.store(true, Ordering::Release);
        }
    }

    /// Notes the time that a run took which shared no submission.
    pub fn note_time(&self, nanoseconds: u64) {
        self.last_run.store(nanoseconds, Ordering::Relaxed);
    }

    /// The time that a run is expected to take; zero before the first.
    pub fn expected_time(&self) -> Duration {
        Duration::from_nanos(self.last_run.load(Ordering::Relaxed))
    }
}

impl Params {
    /// Returns whether a submitted run has carried them over.
    pub fn are_on_device(&self) -> bool {
        self.is_on_device.load(Ordering::Acquire)
    }

    /// The words of all dispatches one after the other, each from a multiple of `alignment` bytes, and the start of each.
    fn pack(dispatches: &[Dispatch], alignment: u32) -> (Vec<u32>, Vec<u32>) {
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

fn alignment(device: &GuardedDevice) -> u32 {
    device.device_limits().min_uniform_buffer_offset_alignment
}

/// Returns whether a block for the parameters of `dispatches` lies idle, or none is needed.
pub(crate) fn has_room_for_params(
    device: &GuardedDevice,
    memory: &DeviceMemory,
    dispatches: &[Dispatch],
) -> bool {
    let bytes = 4 * Params::pack(dispatches, alignment(device)).0.len() as u64;
    bytes == 0 || memory.class(Kind::Params, bytes).is_ok_and(|class| memory.pool.has(class))
}
