//! The run of one piece of a plan, on the host's cores or on a GPU.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;

use smallvec::SmallVec;

use super::results::PieceDone;
use super::{RunResults, RunStats};
use crate::base::clock::Stopwatch;
use crate::base::process::is_forked_child;
use crate::base::trace::{Timeline, stage};
use crate::cost::Backend;
use crate::device::{Device, PreparedPlan};
use crate::error::{DeviceError, Result};
use crate::exec::budget::Permit;
use crate::exec::gpu;
use crate::exec::{FailedElement, HostBuffer, cpu, memory};
use crate::graph::NodeId;
use crate::ops::CpuFunction;
use crate::plan::Plan;
use crate::residents::{Handle, Storage, all_on_device, all_on_host};

pub(super) struct PieceRun<'a> {
    pub device: &'a Device,
    pub piece: &'a PreparedPlan,
    /// The data of the piece's uploads, by position.
    pub uploads: Cow<'a, [Arc<HostBuffer>]>,
    pub functions: &'a [CpuFunction],
    pub residents: Cow<'a, [Handle]>,
    pub permit: &'a Permit,
    pub timeline: Timeline,
    /// True if the same thread awaits another piece.
    pub is_beside: bool,
}

impl PieceRun<'_> {
    /// Runs, and sets the counters and times of the run in `stats`.
    pub async fn run(&self, stats: &mut RunStats) -> Result<PieceDone> {
        stats.backend = stats.backend.or(Some(self.piece.plan.backend));
        match self.run_inline(stats) {
            Some(done) => done,
            None => Box::pin(self.run_off_thread(stats)).await,
        }
    }

    /// The run of a short plan on the host's cores, in this thread; `None` for other plans.
    pub fn run_inline(&self, stats: &mut RunStats) -> Option<Result<PieceDone>> {
        let plan = &self.piece.plan;
        if plan.backend != Backend::Cpu || self.is_beside {
            return None;
        }
        let residents: Option<SmallVec<[_; 4]>> = self.residents.iter().map(Handle::host).collect();
        let residents = residents?;
        let program = self.piece.on_cpu();
        let active = cpu::begin_inline(program)?;
        let running = Stopwatch::started();
        if let Err(error) = check_room(plan.peak_bytes) {
            return Some(Err(error));
        }
        let computing = stage!(self.timeline, "compute", kernels = plan.steps.len());
        let (pool, timeline) = (self.device.pool(), &self.timeline);
        let given = cpu::RunData {
            uploads: &self.uploads,
            residents: &residents,
            functions: self.functions,
        };
        let run = computing.of(|| cpu::run_inline(active, program, given, pool, timeline));
        Some(run.map(|run| self.finish_on_cpu(run, &running, stats)))
    }

    /// The run of a plan that other threads or a GPU work on.
    pub async fn run_off_thread(&self, stats: &mut RunStats) -> Result<PieceDone> {
        if is_forked_child() {
            return Err(DeviceError::Forked.into());
        }
        match self.piece.plan.backend {
            Backend::Cpu => self.on_cpu(stats).await,
            Backend::Gpu => self.on_gpu(stats).await,
        }
    }

    async fn on_cpu(&self, stats: &mut RunStats) -> Result<PieceDone> {
        let plan = &self.piece.plan;
        let running = Stopwatch::started();
        check_room(plan.peak_bytes)?;
        let job = cpu::CpuJob {
            program: Arc::clone(self.piece.on_cpu()),
            uploads: self.uploads.to_vec(),
            residents: all_on_host(&self.residents).await?,
            functions: self.functions.to_vec(),
            permit: self.permit.clone(),
            timeline: self.timeline.clone(),
        };
        let computing = stage!(self.timeline, "compute", kernels = plan.steps.len());
        let run = computing.over(pin!(cpu::run_off_thread(job, self.device.pool()))).await?;
        Ok(self.finish_on_cpu(run, &running, stats))
    }

    /// The results of a run on the CPU, which is counted in `stats`.
    fn finish_on_cpu(
        &self,
        run: cpu::CpuRun,
        running: &Stopwatch,
        stats: &mut RunStats,
    ) -> PieceDone {
        let plan = &self.piece.plan;
        stats.uploads = u64::from(plan.bytes_up > 0);
        stats.downloads = u64::from(plan.bytes_down > 0);
        stats.dispatches = run.dispatches as u64;
        stats.submits = (stats.uploads + stats.downloads + stats.dispatches).min(1);
        stats.dispatches_on_cpu = run.dispatches as u64;
        stats.bytes_up = plan.bytes_up;
        stats.bytes_down = plan.bytes_down;
        stats.pool_hits = run.pool_hits as u64;
        stats.pool_misses = run.pool_misses as u64;
        stats.run_time = running.total();
        PieceDone {
            failed: site(plan, run.failed),
            results: RunResults::Host(run.downloads),
            kept: run.keeps.into_iter().map(Storage::Host).collect(),
        }
    }

    async fn on_gpu(&self, stats: &mut RunStats) -> Result<PieceDone> {
        let Some(gpu) = self.device.opened() else {
            let reason = "it was given up before the run came to it".into();
            return Err(DeviceError::Lost { reason }.into());
        };
        let compiling = Stopwatch::started();
        let compile = stage!(self.timeline, "compile");
        let (kernels, compiled) = compile.over(pin!(self.piece.kernels(self.device, &gpu))).await?;
        if compiled {
            stats.pipelines_compiled = u64::from(kernels.compiled);
            stats.pipeline_hits = u64::from(kernels.hits);
            stats.compile_time = compiling.total();
        }
        let running = Stopwatch::started();
        let residents = all_on_device(&self.residents, &gpu).await?;
        // A result of the GPU may be an upload itself, which then outlives the run.
        let uploads =
            self.uploads.iter().map(|buffer| HostBuffer::outliving(buffer) as gpu::HostData);
        let job = gpu::GpuRunInputs {
            plan: Arc::clone(&self.piece.plan),
            kernels,
            uploads: uploads.collect(),
            residents,
            permit: self.permit.clone(),
            timeline: self.timeline.clone(),
        };
        let run = gpu.run(job).await?;
        let counts = run.counts;
        stats.uploads = counts.uploads.into();
        stats.submits = counts.submits.into();
        stats.shared_submits = counts.shared.into();
        stats.downloads = counts.downloads.into();
        stats.dispatches = counts.dispatches.into();
        stats.bytes_up = counts.bytes_up;
        stats.bytes_down = counts.bytes_down;
        stats.pool_hits = counts.pool_hits.into();
        stats.pool_misses = counts.pool_misses.into();
        stats.run_time = running.total();
        Ok(PieceDone {
            failed: site(&self.piece.plan, run.failed),
            kept: run.kept.iter().map(|buffer| Storage::Gpu(Arc::clone(buffer))).collect(),
            results: RunResults::Gpu(Box::new(run)),
        })
    }
}

/// The operation that failed, and which of its elements.
fn site(plan: &Plan, failed: Option<FailedElement>) -> Option<(NodeId, u32)> {
    failed.map(|FailedElement { site, at }| (plan.sites[site as usize], at))
}

/// Fails if the host has no room for the memory that a large run holds at once, before anything is computed.
fn check_room(bytes: u64) -> Result<()> {
    const LARGE: u64 = 1 << 30;
    let room = |bytes: usize| Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    if bytes < LARGE || usize::try_from(bytes).is_ok_and(room) {
        return Ok(());
    }
    Err(memory::exhausted(bytes).into())
}
