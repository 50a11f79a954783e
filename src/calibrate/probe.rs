//! Running one probe on one side, and the time that it takes.

use std::sync::Arc;

use super::probe_groups::Deadline;
use super::subject::{Pace, Subject};
use crate::base::clock::Stopwatch;
use crate::base::dtype::DType;
use crate::base::sync::Mutex;
use crate::base::trace::Timeline;
use crate::codegen::{Dispatch, lower};
use crate::cost::Backend;
use crate::error::{Result, RunError};
use crate::exec::HostBuffer;
use crate::exec::budget::Permit;
use crate::exec::cpu::{self, CpuPool};
use crate::exec::gpu::{DeviceBuffer, Gpu, GpuJob, HostData};
use crate::exec::{memory, threads};
use crate::graph::Graph;
use crate::plan::{Home, Plan, Target, plan};

/// Runs of a probe whose median is taken.
pub(super) const REPEATS: usize = 5;
/// Seconds for which a short probe is repeated. A card that was idle gets faster for a few runs (an H200 for half a
/// millisecond).
const SETTLING: f64 = 0.0006;
/// The same on the cores, which settle sooner.
const SETTLING_CPU: f64 = 0.0003;
const MOST_REPEATS: usize = 16;
/// Number of runs after which runs count even if others ran beside them.
const PATIENCE: usize = 10;
/// A probe that has run for this many seconds is not repeated.
const ENOUGH: f64 = 0.003;

/// One side, ready to run probes.
pub(super) struct Bench<'a> {
    pub target: &'a Target,
    runner: Runner<'a>,
    pace: &'a dyn Pace,
    data: &'a ProbeData,
}

/// The data that probes read, by length. Fresh memory takes longer to fill than most probes take.
pub(super) type ProbeData = Mutex<Vec<Arc<HostBuffer>>>;

enum Runner<'a> {
    Cpu(&'a Arc<CpuPool>),
    Gpu(&'a Gpu),
}

/// The time of a run of several equal pieces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProbeTiming {
    pub seconds: f64,
    /// Flops of one piece.
    pub flops: f64,
    /// Bytes that one piece reads and writes.
    pub bytes: f64,
    /// Bytes that the run uploads and downloads.
    pub moved: f64,
}

#[derive(Default)]
struct ProbeRuns {
    count: usize,
    /// Seconds of all runs.
    spent: f64,
    /// Seconds of each run that counts.
    samples: Vec<f64>,
}

impl ProbeRuns {
    /// Returns whether there should be more runs, on a side that takes `settling` seconds to settle.
    fn are_too_few(&self, settling: f64) -> bool {
        let samples = match self.samples.len() {
            0 => true,
            1..REPEATS => self.spent < ENOUGH,
            MOST_REPEATS.. => false,
            _ => self.spent < settling,
        };
        samples && self.count < 2 * MOST_REPEATS
    }

    /// Adds a run. Nobody else ran beside it if it was `alone`.
    fn add(&mut self, seconds: f64, alone: bool) {
        self.count += 1;
        self.spent += seconds;
        if alone || self.count > PATIENCE {
            self.samples.push(seconds);
        }
    }

    /// The median; the lower one of two in the middle, since disturbances only make a run longer.
    fn median(mut self) -> Option<f64> {
        self.samples.sort_by(f64::total_cmp);
        self.samples.get(self.samples.len().saturating_sub(1) / 2).copied()
    }
}

impl<'a> Bench<'a> {
    pub fn on_cpu(subject: &'a Subject, pace: &'a dyn Pace, data: &'a ProbeData) -> Self {
        Self { target: &subject.cpu, runner: Runner::Cpu(&subject.pool), pace, data }
    }

    pub fn on_gpu(
        gpu: &'a Gpu,
        target: &'a Target,
        pace: &'a dyn Pace,
        data: &'a ProbeData,
    ) -> Self {
        Self { target, runner: Runner::Gpu(gpu), pace, data }
    }

    pub fn side(&self) -> Backend {
        self.target.backend
    }

    /// As [`time_plan`](Self::time_plan), for `graph`; `None` also if the device has no plan for it.
    pub async fn time(
        &self,
        graph: Option<Graph>,
        deadline: Deadline,
    ) -> Result<Option<ProbeTiming>> {
        match graph.and_then(|graph| plan(&graph, self.target).ok()) {
            Some(plan) => self.time_plan(plan, deadline).await,
            None => Ok(None),
        }
    }

    /// The time of `plan`, whose residents and uploads are filled with one number; `None` if no time is left for it.
    ///
    /// # Errors
    /// [`RunError::Cancelled`] if the pace says to stop; if the device fails.
    pub async fn time_plan(
        &self,
        mut plan: Plan,
        deadline: Deadline,
    ) -> Result<Option<ProbeTiming>> {
        // Without waves, the times of transfers and of computation add up.
        plan.waves.clear();
        self.go_on()?;
        if deadline.left() < 0.0 {
            return Ok(None);
        }
        let first = plan.steps.first().map(|step| step.cost).unwrap_or_default();
        let moved = (plan.bytes_up + plan.bytes_down) as f64;
        let bytes = (first.bytes_read + first.bytes_written) as f64;
        let probe = self.prepare(plan).await?;
        let settling = if self.side() == Backend::Cpu { SETTLING_CPU } else { SETTLING };
        // The first run allocates.
        let first_run = probe.run().await?;
        let mut runs = ProbeRuns::default();
        while runs.are_too_few(settling) {
            self.go_on()?;
            let others = self.pace.others();
            let seconds = probe.run().await?;
            runs.add(seconds, self.pace.others() == others);
        }
        let seconds = runs.median().unwrap_or(first_run);
        Ok(Some(ProbeTiming { seconds, flops: first.flops as f64, bytes, moved }))
    }

    /// Fails if the pace says to stop.
    fn go_on(&self) -> Result<(), RunError> {
        if self.pace.may_go_on() { Ok(()) } else { Err(RunError::Cancelled) }
    }

    /// The plans of `graphs`, without graphs that have none.
    pub fn plans(&self, graphs: impl Iterator<Item = Option<Graph>>) -> impl Iterator<Item = Plan> {
        graphs.filter_map(|graph| plan(&graph?, self.target).ok())
    }

    /// Compiles the kernels of all `plans` at once, those of the first plan first.
    pub async fn compile(&self, plans: impl Iterator<Item = Plan>) -> Result<()> {
        let Runner::Gpu(gpu) = &self.runner else { return Ok(()) };
        gpu.compile(self.dispatches(plans), ()).await?;
        Ok(())
    }

    pub fn dispatches(&self, plans: impl Iterator<Item = Plan>) -> Vec<Dispatch> {
        plans.flat_map(|plan| self.lowered(&plan)).collect()
    }

    fn lowered(&self, plan: &Plan) -> Vec<Dispatch> {
        let steps = plan.steps.iter().filter(|step| !step.is_empty());
        steps.flat_map(|step| lower(plan, step, &self.target.limits)).collect()
    }

    async fn prepare(&self, plan: Plan) -> Result<Probe<'a>> {
        let host = self.host(&plan)?;
        match &self.runner {
            Runner::Cpu(pool) => {
                let job = cpu::CpuJob {
                    program: Arc::new(cpu::CpuProgram::new(Arc::new(plan))),
                    uploads: host.uploads,
                    residents: host.residents,
                    functions: Vec::new(),
                    permit: Permit::default(),
                    timeline: Timeline::default(),
                };
                Ok(Probe::Cpu(job, pool))
            }
            Runner::Gpu(gpu) => {
                let kernels = gpu.compile(self.lowered(&plan), ()).await?;
                let uploads = host.uploads.iter().map(|data| Arc::clone(data) as HostData);
                let job = GpuJob {
                    kernels,
                    uploads: uploads.collect(),
                    residents: host.on(gpu)?,
                    plan: Arc::new(plan),
                    permit: Permit::default(),
                    timeline: Timeline::default(),
                };
                Ok(Probe::Gpu(job, gpu))
            }
        }
    }

    fn host(&self, plan: &Plan) -> Result<Host> {
        let mut host = Host { uploads: Vec::new(), residents: Vec::new() };
        let mut inputs: Vec<_> = plan.values.iter().collect();
        // Positions count up, and every one is read.
        inputs.sort_by_key(|value| match value.home {
            Home::Upload { input: at, .. } | Home::Resident(at) => at,
            Home::Slot(_) | Home::Kept(_) => 0,
        });
        for value in inputs {
            debug_assert_eq!(value.dtype, DType::F32);
            match value.home {
                Home::Upload { .. } => host.uploads.push(self.filled(value.shape.elements())?),
                Home::Resident(_) => host.residents.push(self.filled(value.shape.elements())?),
                Home::Slot(_) | Home::Kept(_) => {}
            }
        }
        Ok(host)
    }

    /// A buffer of `elements` equal elements.
    fn filled(&self, elements: usize) -> Result<Arc<HostBuffer>> {
        let mut made = self.data.lock();
        if let Some(buffer) = made.iter().find(|buffer| buffer.len() == elements) {
            return Ok(Arc::clone(buffer));
        }
        let mut words = memory::try_zeroed(elements)?;
        threads::fill(&mut words, 0.5_f32.to_bits());
        let buffer = Arc::new(HostBuffer::recycled(DType::F32, elements, words));
        made.push(Arc::clone(&buffer));
        Ok(buffer)
    }
}

/// A plan with its data and its runner.
enum Probe<'a> {
    Cpu(cpu::CpuJob, &'a Arc<CpuPool>),
    Gpu(GpuJob, &'a Gpu),
}

impl Probe<'_> {
    /// Seconds of one run.
    async fn run(&self) -> Result<f64> {
        match self {
            Self::Cpu(job, pool) => {
                let job = job.clone();
                let running = Stopwatch::started();
                let run = match cpu::begin_inline(&job.program) {
                    Some(active) => {
                        cpu::run_inline(active, &job.program, job.data(), pool, &job.timeline)?
                    }
                    None => cpu::run_off_thread(job, pool).await?,
                };
                let seconds = running.total().as_secs_f64();
                drop(run);
                Ok(seconds)
            }
            Self::Gpu(job, gpu) => {
                let running = Stopwatch::started();
                gpu.run(job.clone()).await?;
                Ok(running.total().as_secs_f64())
            }
        }
    }
}

/// The data of a probe: one buffer for all inputs of one length.
struct Host {
    uploads: Vec<Arc<HostBuffer>>,
    residents: Vec<Arc<HostBuffer>>,
}

impl Host {
    /// The residents on a GPU. Residents of one length share a buffer.
    fn on(&self, gpu: &Gpu) -> Result<Vec<Arc<DeviceBuffer>>> {
        let mut made: Vec<(usize, Arc<DeviceBuffer>)> = Vec::new();
        let mut residents = Vec::with_capacity(self.residents.len());
        for host in &self.residents {
            let known = made.iter().find(|(elements, _)| *elements == host.len());
            let buffer = match known {
                Some((_, buffer)) => Arc::clone(buffer),
                None => gpu.resident(host.dtype(), host.bytes())?,
            };
            made.push((host.len(), Arc::clone(&buffer)));
            residents.push(buffer);
        }
        Ok(residents)
    }
}
