//! Compile and run a batch, and read what came back.

use std::sync::Arc;

use super::read::Found;
use super::resident::{Handle, Storage};
use super::stats::RunStats;
use super::{BufferId, GpuCommandBatch};
use crate::clock::Stopwatch;
use crate::codegen::lower;
use crate::cost::Backend;
use crate::device::Device;
use crate::dtype::Element;
use crate::error::{DeviceError, Error, PlanError, ReadError, Result};
use crate::graph::NodeId;
use crate::ops::Op;
use crate::plan::{Explanation, Placed, Plan};
use crate::run::HostBuffer;
use crate::run::cpu;
#[cfg(feature = "gpu")]
use crate::run::gpu::{self, DeviceBuffer, GpuRun, Kernels};

/// What a batch remembers between runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    program: Option<Arc<Program>>,
    results: Option<Results>,
    stats: RunStats,
}

/// A plan, ready to run.
struct Program {
    plan: Arc<Plan>,
    /// What is downloaded, in the order of the plan's downloads.
    outputs: Vec<NodeId>,
    other_seconds: Option<f64>,
    /// `None` until it first runs, or on the CPU for good.
    #[cfg(feature = "gpu")]
    kernels: std::sync::OnceLock<Arc<Kernels>>,
}

/// What a run brought back.
enum Results {
    Host(Vec<Arc<HostBuffer>>),
    #[cfg(feature = "gpu")]
    Gpu(GpuRun),
}

impl Runs {
    /// The graph changed: plan anew.
    pub fn forget_program(&mut self) {
        self.program = None;
        self.results = None;
    }

    /// The data changed: run anew.
    pub fn forget_results(&mut self) {
        self.results = None;
    }

    pub fn stats(&self) -> &RunStats {
        &self.stats
    }
}

impl GpuCommandBatch {
    /// Runs the batch: one upload, one submit, one download. May be called again, after
    /// [`write`](Self::write) with other data.
    ///
    /// The future is `Send` and may be dropped at any time; the batch then holds no results.
    ///
    /// # Errors
    /// Every mistake made while recording ([`Error::Record`]); a graph that the device cannot hold
    /// ([`Error::Plan`]); a failure of the device ([`Error::Device`]).
    pub async fn execute(&mut self) -> Result<()> {
        self.runs.results = None;
        let mut stats = RunStats { record_time: self.recording.total(), ..RunStats::default() };
        let planning = Stopwatch::started();
        let was_planned = self.runs.program.is_some();
        let program = self.program()?;
        if !was_planned {
            stats.plan_time = planning.total();
        }
        stats.backend = Some(program.plan.backend);
        stats.peak_bytes = program.plan.peak_bytes;
        let results = match program.plan.backend {
            Backend::Cpu => self.run_on_cpu(&program, &mut stats).await?,
            #[cfg(feature = "gpu")]
            Backend::Gpu => self.run_on_gpu(&program, &mut stats).await?,
            #[cfg(not(feature = "gpu"))]
            Backend::Gpu => return Err(DeviceError::NoGpuSupport.into()),
        };
        self.runs.results = Some(results);
        self.runs.stats = stats;
        Ok(())
    }

    async fn run_on_cpu(&self, program: &Program, stats: &mut RunStats) -> Result<Results> {
        let running = Stopwatch::started();
        check_room(program.plan.peak_bytes)?;
        let residents = self.residents.iter().map(host_storage);
        let job = cpu::CpuJob {
            plan: Arc::clone(&program.plan),
            uploads: self.uploads.clone(),
            residents: residents.collect::<Result<_>>()?,
        };
        let run = cpu::run_off_thread(job, self.device.pool()).await;
        for (handle, buffer) in self.kept.iter().zip(run.keeps) {
            handle.fill(Storage::Host(buffer));
        }
        stats.uploads = u64::from(!self.uploads.is_empty());
        stats.submits = 1;
        stats.downloads = u64::from(!program.outputs.is_empty());
        stats.dispatches = run.dispatches as u64;
        stats.bytes_up = program.plan.bytes_up;
        stats.bytes_down = program.plan.bytes_down;
        stats.pool_hits = run.pool_hits as u64;
        stats.pool_misses = run.pool_misses as u64;
        stats.run_time = running.total();
        Ok(Results::Host(run.downloads))
    }

    #[cfg(feature = "gpu")]
    async fn run_on_gpu(&self, program: &Program, stats: &mut RunStats) -> Result<Results> {
        let Some(gpu) = self.device.opened() else {
            return Err(DeviceError::NoGpuSupport.into());
        };
        let compiling = Stopwatch::started();
        let kernels = if let Some(kernels) = program.kernels.get() {
            Arc::clone(kernels)
        } else {
            let dispatches = self.dispatches(&program.plan);
            let kernels = gpu.compile(dispatches).await?;
            stats.pipelines_compiled = u64::from(kernels.compiled);
            stats.pipeline_hits = u64::from(kernels.hits);
            stats.compile_time = compiling.total();
            Arc::clone(program.kernels.get_or_init(|| kernels))
        };
        let running = Stopwatch::started();
        let residents = self.residents.iter().map(|handle| device_storage(handle, gpu));
        let job = gpu::Job {
            plan: Arc::clone(&program.plan),
            kernels,
            uploads: self
                .uploads
                .iter()
                .map(|buffer| Arc::clone(buffer) as gpu::HostData)
                .collect(),
            residents: residents.collect::<Result<_>>()?,
        };
        let run = gpu.run(job).await?;
        for (handle, buffer) in self.kept.iter().zip(&run.kept) {
            handle.fill(Storage::Gpu(Arc::clone(buffer)));
        }
        let counts = run.counts;
        stats.uploads = counts.uploads.into();
        stats.submits = counts.submits.into();
        stats.downloads = counts.downloads.into();
        stats.dispatches = counts.dispatches.into();
        stats.bytes_up = counts.bytes_up;
        stats.bytes_down = counts.bytes_down;
        stats.pool_hits = counts.pool_hits.into();
        stats.pool_misses = counts.pool_misses.into();
        stats.run_time = running.total();
        Ok(Results::Gpu(run))
    }

    /// What the last run brought back for `id`.
    pub(super) fn found<T: Element>(&self, id: BufferId<T>) -> Result<Found> {
        let node = if id.brand == self.brand { self.graph.get(id.node) } else { None };
        let node = node.ok_or(ReadError::Foreign)?;
        let (Some(program), Some(results)) = (&self.runs.program, &self.runs.results) else {
            return Err(ReadError::NotExecuted.into());
        };
        let at = program.outputs.iter().position(|&output| output == id.node);
        let at = at.ok_or_else(|| ReadError::NotDownloaded {
            op: node.op.name(),
            place: crate::error::file_and_line(node.place),
        })?;
        Ok(match results {
            Results::Host(buffers) => Found::Host(Arc::clone(&buffers[at])),
            #[cfg(feature = "gpu")]
            Results::Gpu(run) => Found::Gpu(run.download(at)),
        })
    }

    /// The kernels' WGSL, each with its label, as the GPU would run them.
    ///
    /// # Errors
    /// As [`explain`](Self::explain).
    pub fn shaders(&mut self) -> Result<Vec<(String, String)>> {
        let program = self.program()?;
        let dispatches = self.dispatches(&program.plan);
        Ok(dispatches.into_iter().map(|dispatch| (dispatch.label, dispatch.wgsl)).collect())
    }

    fn dispatches(&self, plan: &Plan) -> Vec<crate::codegen::Dispatch> {
        let limits = self.device.limits(plan.backend);
        let steps = plan.steps.iter().filter(|step| !step.is_empty());
        steps.flat_map(|step| lower(plan, step, limits)).collect()
    }

    pub(super) fn explanation(&mut self) -> Result<Explanation> {
        let program = self.program()?;
        let limits = self.device.limits(program.plan.backend);
        Ok(Explanation::new(&program.plan, limits, program.other_seconds))
    }

    /// The plan of the batch as it stands, made once.
    fn program(&mut self) -> Result<Arc<Program>> {
        self.check_recorded()?;
        let pinned = self.pinned()?;
        if let Some(program) = &self.runs.program
            && pinned.is_none_or(|side| side == program.plan.backend)
        {
            return Ok(Arc::clone(program));
        }
        debug_assert_eq!(self.graph.verify(), Ok(()));
        let Placed { plan, other_seconds } = self.device.place(&self.graph, pinned)?;
        let program = Arc::new(Program {
            plan: Arc::new(plan),
            outputs: self.graph.outputs(),
            other_seconds,
            #[cfg(feature = "gpu")]
            kernels: std::sync::OnceLock::new(),
        });
        self.runs.program = Some(Arc::clone(&program));
        Ok(program)
    }

    /// The side that a bound resident pins the graph to: data on a GPU stays there.
    fn pinned(&self) -> Result<Option<Backend>> {
        let mut pinned = None;
        for (_, node) in self.graph.iter() {
            let Op::Resident(at) = node.op else { continue };
            let storage = self.residents[at as usize].storage();
            let storage = storage.ok_or_else(|| {
                Error::from(PlanError::EmptyResident {
                    place: crate::error::file_and_line(node.place),
                })
            })?;
            if storage.backend() == Backend::Gpu {
                pinned = Some(Backend::Gpu);
            }
        }
        Ok(pinned)
    }
}

impl Device {
    /// Runs one result in a batch of its own: the form of one call per operation.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::cpu();
    /// let y = device.eval(|b| {
    ///     let x = b.upload(&[1.0_f32, -2.0]);
    ///     b.relu(x)
    /// });
    /// assert_eq!(y.await?, [1.0, 0.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`GpuCommandBatch::execute`] and [`GpuCommandBatch::read`].
    pub async fn eval<T: Element>(
        &self,
        record: impl FnOnce(&mut GpuCommandBatch) -> BufferId<T>,
    ) -> Result<Vec<T>> {
        let mut batch = GpuCommandBatch::new(self);
        let result = record(&mut batch);
        batch.download(result);
        batch.execute().await?;
        batch.read(result).await
    }
}

/// Fails where the host has no room for what a large run holds at once: without room, the allocation
/// itself would end the process.
fn check_room(bytes: u64) -> Result<()> {
    const LARGE: u64 = 1 << 30;
    let room = |bytes: usize| Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    if bytes < LARGE || usize::try_from(bytes).is_ok_and(room) {
        return Ok(());
    }
    let doing = format!("allocating {} of host memory", crate::units::bytes(bytes));
    Err(DeviceError::OutOfMemory { doing }.into())
}

/// A resident's data for a run on the CPU, to which no data on a GPU is ever pinned.
fn host_storage(handle: &Handle) -> Result<Arc<HostBuffer>> {
    match handle.storage() {
        Some(Storage::Host(buffer)) => Ok(buffer),
        _ => Err(ReadError::EmptyResident.into()),
    }
}

/// A resident's data for a run on the GPU; what a run on the CPU kept moves there.
#[cfg(feature = "gpu")]
fn device_storage(handle: &Handle, gpu: &gpu::Gpu) -> Result<Arc<DeviceBuffer>> {
    match handle.storage() {
        Some(Storage::Gpu(buffer)) => Ok(buffer),
        Some(Storage::Host(buffer)) => {
            let moved = Arc::new(gpu.resident(handle.dtype(), buffer.bytes())?);
            handle.fill(Storage::Gpu(Arc::clone(&moved)));
            Ok(moved)
        }
        None => Err(ReadError::EmptyResident.into()),
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} steps for {})", self.plan.steps.len(), self.plan.backend)
    }
}

impl std::fmt::Debug for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(buffers) => write!(f, "Results({} on the host)", buffers.len()),
            #[cfg(feature = "gpu")]
            Self::Gpu(run) => write!(f, "Results({} from the GPU)", run.len()),
        }
    }
}
