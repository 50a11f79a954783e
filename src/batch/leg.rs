//! The run of one piece of a plan, on the host's cores or on a GPU.

use std::borrow::Cow;
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::launch::{Done, Results};
use super::read::yield_now;
use super::residence::{Handle, Storage};
use super::stats::RunStats;
use crate::base::clock::Stopwatch;
use crate::base::trace::{Timeline, stage};
use crate::cost::Backend;
use crate::device::{Device, Piece};
use crate::error::{DeviceError, Result};
use crate::exec::budget::Permit;
use crate::exec::cpu;
#[cfg(feature = "gpu")]
use crate::exec::gpu::{self, DeviceBuffer};
#[cfg(feature = "gpu")]
use crate::exec::threads::off_thread;
use crate::exec::{HostBuffer, memory};
use crate::graph::NodeId;
use crate::ops::Function;
use crate::plan::{Failed, Plan};

/// The run of one piece.
pub(super) struct Leg<'a> {
    pub device: &'a Device,
    pub piece: &'a Piece,
    /// By position of the piece's uploads.
    pub uploads: Cow<'a, [Arc<HostBuffer>]>,
    /// Of the whole batch.
    pub functions: &'a [Function],
    /// By position of the piece's residents.
    pub residents: Cow<'a, [Handle]>,
    pub permit: &'a Permit,
    pub timeline: Timeline,
    /// Whether another piece is awaited on the same thread.
    pub is_beside: bool,
}

impl Leg<'_> {
    /// Runs. Of `stats`, what counts and times the run is set.
    pub async fn run(&self, stats: &mut RunStats) -> Result<Done> {
        stats.backend = stats.backend.or(Some(self.piece.plan.backend));
        let done = match self.at_once(stats) {
            Some(done) => done?,
            // Boxed: a future of some KiB, each move of which would take as long as a short run does beside its work.
            None => Box::pin(self.elsewhere(stats)).await?,
        };
        if self.piece.plan.backend == Backend::Cpu && is_others_turn(stats.run_time) {
            yield_now().await;
        }
        Ok(done)
    }

    /// The run of a short plan on the host's cores, for which nothing is awaited; `None` for others.
    fn at_once(&self, stats: &mut RunStats) -> Option<Result<Done>> {
        let plan = &self.piece.plan;
        if plan.backend != Backend::Cpu || self.is_beside {
            return None;
        }
        let residents: Option<SmallVec<[_; 4]>> = self.residents.iter().map(Handle::host).collect();
        let residents = residents?;
        let program = self.piece.on_cpu();
        let here = cpu::Here::begin(program)?;
        let running = Stopwatch::started();
        if let Err(error) = check_room(plan.peak_bytes) {
            return Some(Err(error));
        }
        let computing = stage!(self.timeline, "run", kernels = plan.steps.len());
        let (pool, timeline) = (self.device.pool(), &self.timeline);
        let given =
            cpu::Given { uploads: &self.uploads, residents: &residents, functions: self.functions };
        let run = computing.of(|| here.run(program, given, pool, timeline));
        Some(run.map(|run| self.done(run, &running, stats)))
    }

    async fn elsewhere(&self, stats: &mut RunStats) -> Result<Done> {
        match self.piece.plan.backend {
            Backend::Cpu => self.on_cpu(stats).await,
            #[cfg(feature = "gpu")]
            Backend::Gpu => self.on_gpu(stats).await,
            #[cfg(not(feature = "gpu"))]
            Backend::Gpu => Err(DeviceError::NoGpuSupport.into()),
        }
    }

    async fn on_cpu(&self, stats: &mut RunStats) -> Result<Done> {
        let plan = &self.piece.plan;
        let running = Stopwatch::started();
        check_room(plan.peak_bytes)?;
        let job = cpu::CpuJob {
            program: Arc::clone(self.piece.on_cpu()),
            uploads: self.uploads.to_vec(),
            residents: host_residents(&self.residents).await?,
            functions: self.functions.to_vec(),
            permit: self.permit.clone(),
            timeline: self.timeline.clone(),
        };
        let computing = stage!(self.timeline, "run", kernels = plan.steps.len());
        let run = computing.over(pin!(cpu::run_off_thread(job, self.device.pool()))).await?;
        Ok(self.done(run, &running, stats))
    }

    /// What `run` left, which is counted.
    fn done(&self, run: cpu::CpuRun, running: &Stopwatch, stats: &mut RunStats) -> Done {
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
        Done {
            failed: site(plan, run.failed),
            results: Results::Host(run.downloads),
            kept: run.keeps.into_iter().map(Storage::on_host).collect(),
        }
    }

    #[cfg(feature = "gpu")]
    async fn on_gpu(&self, stats: &mut RunStats) -> Result<Done> {
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
        let residents = device_residents(&self.residents, &gpu).await?;
        let uploads = self.uploads.iter().map(|buffer| Arc::clone(buffer) as gpu::HostData);
        let job = gpu::Job {
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
        Ok(Done {
            failed: site(&self.piece.plan, run.failed),
            kept: run.kept.iter().map(|buffer| Storage::on_gpu(Arc::clone(buffer))).collect(),
            results: Results::Gpu(run),
        })
    }
}

/// The operation that failed, and which of its elements.
fn site(plan: &Plan, failed: Option<Failed>) -> Option<(NodeId, u32)> {
    failed.map(|Failed { site, at }| (plan.sites[site as usize], at))
}

/// Whether runs that were done where they were awaited have had this thread for so long that others should have it,
/// now that there was one more of `time`.
fn is_others_turn(time: Duration) -> bool {
    const SLICE: Duration = Duration::from_micros(100);
    thread_local!(static TAKEN: Cell<Duration> = const { Cell::new(Duration::ZERO) });
    let taken = TAKEN.get() + time;
    TAKEN.set(if taken < SLICE { taken } else { Duration::ZERO });
    taken >= SLICE
}

/// Fails where the host has no room for what a large run holds at once, before anything is computed.
fn check_room(bytes: u64) -> Result<()> {
    const LARGE: u64 = 1 << 30;
    let room = |bytes: usize| Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    if bytes < LARGE || usize::try_from(bytes).is_ok_and(room) {
        return Ok(());
    }
    Err(memory::exhausted(bytes).into())
}

/// The residents for a run on the CPU. What lies on the GPU alone is fetched, and stays on both sides unless it is
/// shared.
async fn host_residents(handles: &[Handle]) -> Result<Vec<Arc<HostBuffer>>> {
    let there: Option<Vec<_>> = handles.iter().map(Handle::host).collect();
    if let Some(there) = there {
        return Ok(there);
    }
    let mut residents = Vec::with_capacity(handles.len());
    for handle in handles {
        residents.push(handle.on_host().await?);
    }
    Ok(residents)
}

/// The residents for a run on the GPU. Those that lie on the host alone are brought there off the awaiting thread.
#[cfg(feature = "gpu")]
async fn device_residents(handles: &[Handle], gpu: &gpu::Gpu) -> Result<Vec<Arc<DeviceBuffer>>> {
    let there: Result<Option<Vec<_>>> =
        handles.iter().map(|handle| Ok(handle.filled()?.gpu)).collect();
    if let Some(there) = there? {
        return Ok(there);
    }
    let (handles, gpu) = (handles.to_vec(), gpu.clone());
    off_thread(move || handles.iter().map(|handle| device_storage(handle, &gpu)).collect()).await
}

/// A resident's data for a run on the GPU; what lies on the host alone goes there, and stays on both sides.
#[cfg(feature = "gpu")]
pub(super) fn device_storage(handle: &Handle, gpu: &gpu::Gpu) -> Result<Arc<DeviceBuffer>> {
    if let Some(buffer) = handle.filled()?.gpu {
        return Ok(buffer);
    }
    // Whoever comes meanwhile finds it there.
    let _bringing = handle.bringing();
    let storage = handle.filled()?;
    if let Some(buffer) = storage.gpu {
        return Ok(buffer);
    }
    let host = storage.host.ok_or_else(|| handle.empty())?;
    let copy = handle.device().send(gpu, handle.dtype(), host.bytes())?;
    handle.add_copy(&host, &copy);
    Ok(copy)
}
