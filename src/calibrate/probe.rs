//! Running one probe on one side, and the time that it takes.

use std::sync::Arc;

use super::{Deadline, Pace, Subject};
use crate::base::clock::Stopwatch;
use crate::base::dtype::DType;
use crate::base::sync::Mutex;
use crate::base::trace::Timeline;
#[cfg(feature = "gpu")]
use crate::codegen::{Dispatch, lower};
use crate::cost::Backend;
use crate::error::Result;
use crate::exec::HostBuffer;
use crate::exec::budget::Permit;
use crate::exec::cpu::{self, CpuPool};
#[cfg(feature = "gpu")]
use crate::exec::gpu::{self, DeviceBuffer, Gpu, Kernels};
use crate::exec::{memory, threads};
use crate::graph::Graph;
use crate::plan::{Home, Plan, Target, plan};

/// Runs of a probe from which the median is taken, and seconds for which a short one is repeated, up to so many times:
/// a card that was idle gets faster for a few runs (an H200 for half a millisecond), and cores need not settle for as
/// long.
pub(super) const REPEATS: usize = 5;
const SETTLING: f64 = 0.0006;
const SETTLING_CPU: f64 = 0.0003;
const MOST_REPEATS: usize = 16;
/// Runs after which those count too beside which others ran.
const PATIENCE: usize = 10;
/// A probe that has run for so many seconds is not repeated.
const ENOUGH: f64 = 0.003;

/// One side, ready to run probes.
pub(super) struct Bench<'a> {
    pub target: &'a Target,
    runner: Runner<'a>,
    pace: &'a dyn Pace,
    data: &'a Data,
}

/// The data that probes read, by length. Fresh memory takes longer to fill than most probes take.
pub(super) type Data = Mutex<Vec<Arc<HostBuffer>>>;

enum Runner<'a> {
    Cpu(&'a Arc<CpuPool>),
    #[cfg(feature = "gpu")]
    Gpu(&'a Gpu),
}

/// The outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sample {
    /// Median seconds of a run, and what one of its pieces counts.
    Took(Timing),
    /// There is no time left for it, or the device has no room.
    LeftOut,
    /// The pace says to stop.
    Stopped,
}

/// The time of a run of several equal pieces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timing {
    pub seconds: f64,
    /// Of one piece.
    pub flops: f64,
    /// Of one piece, read and written.
    pub bytes: f64,
    /// Bytes brought and fetched by the run.
    pub moved: f64,
}

/// The runs of a probe so far.
#[derive(Default)]
struct Runs {
    count: usize,
    /// Seconds of all of them.
    spent: f64,
    /// Seconds of those that count.
    samples: Vec<f64>,
}

impl Runs {
    /// Whether there should be more, of a side that takes so many seconds to settle.
    fn are_too_few(&self, settling: f64) -> bool {
        let samples = match self.samples.len() {
            0 => true,
            1..REPEATS => self.spent < ENOUGH,
            MOST_REPEATS.. => false,
            _ => self.spent < settling,
        };
        samples && self.count < 2 * MOST_REPEATS
    }

    /// One more, beside which nobody else ran if it was `alone`.
    fn add(&mut self, seconds: f64, alone: bool) {
        self.count += 1;
        self.spent += seconds;
        if alone || self.count > PATIENCE {
            self.samples.push(seconds);
        }
    }

    /// Of two in the middle the lower: what disturbs a run only adds to it.
    fn median(mut self) -> Option<f64> {
        self.samples.sort_by(f64::total_cmp);
        self.samples.get(self.samples.len().saturating_sub(1) / 2).copied()
    }
}

impl<'a> Bench<'a> {
    pub fn on_cpu(subject: &'a Subject, pace: &'a dyn Pace, data: &'a Data) -> Self {
        Self { target: &subject.cpu, runner: Runner::Cpu(&subject.pool), pace, data }
    }

    #[cfg(feature = "gpu")]
    pub fn on_gpu(gpu: &'a Gpu, target: &'a Target, pace: &'a dyn Pace, data: &'a Data) -> Self {
        Self { target, runner: Runner::Gpu(gpu), pace, data }
    }

    pub fn side(&self) -> Backend {
        self.target.backend
    }

    /// The time of `graph`, whose residents and uploads are filled with one number.
    pub async fn time(&self, graph: Option<Graph>, deadline: Deadline) -> Result<Sample> {
        let Some(plan) = graph.and_then(|graph| plan(&graph, self.target).ok()) else {
            return Ok(Sample::LeftOut);
        };
        self.time_plan(plan, deadline).await
    }

    /// The time of `plan`.
    pub async fn time_plan(&self, mut plan: Plan, deadline: Deadline) -> Result<Sample> {
        // What is brought and what is computed are to add up.
        plan.waves.clear();
        if !self.pace.may_go_on() {
            return Ok(Sample::Stopped);
        }
        if deadline.left() < 0.0 {
            return Ok(Sample::LeftOut);
        }
        let first = plan.steps.first().map(|step| step.cost).unwrap_or_default();
        let moved = (plan.bytes_up + plan.bytes_down) as f64;
        let bytes = (first.bytes_read + first.bytes_written) as f64;
        let probe = self.prepare(plan).await?;
        let settling = if self.side() == Backend::Cpu { SETTLING_CPU } else { SETTLING };
        // The first run allocates.
        let first_run = self.run(&probe).await?;
        let mut runs = Runs::default();
        while runs.are_too_few(settling) {
            if !self.pace.may_go_on() {
                return Ok(Sample::Stopped);
            }
            let others = self.pace.others();
            let seconds = self.run(&probe).await?;
            runs.add(seconds, self.pace.others() == others);
        }
        let seconds = runs.median().unwrap_or(first_run);
        Ok(Sample::Took(Timing { seconds, flops: first.flops as f64, bytes, moved }))
    }

    /// The plans of those of `graphs` that there are.
    #[cfg(feature = "gpu")]
    pub fn plans(&self, graphs: impl Iterator<Item = Option<Graph>>) -> impl Iterator<Item = Plan> {
        graphs.filter_map(|graph| plan(&graph?, self.target).ok())
    }

    /// Compiles the kernels of all `plans` at once, the first of them first.
    #[cfg(feature = "gpu")]
    pub async fn compile(&self, plans: impl Iterator<Item = Plan>) -> Result<()> {
        let Runner::Gpu(gpu) = &self.runner else { return Ok(()) };
        gpu.compile(self.dispatches(plans), ()).await?;
        Ok(())
    }

    /// The dispatches of all `plans`.
    #[cfg(feature = "gpu")]
    pub fn dispatches(&self, plans: impl Iterator<Item = Plan>) -> Vec<Dispatch> {
        plans.flat_map(|plan| self.lowered(&plan)).collect()
    }

    #[cfg(feature = "gpu")]
    fn lowered(&self, plan: &Plan) -> Vec<Dispatch> {
        let steps = plan.steps.iter().filter(|step| !step.is_empty());
        steps.flat_map(|step| lower(plan, step, &self.target.limits)).collect()
    }

    async fn prepare(&self, plan: Plan) -> Result<Probe> {
        let host = self.host(&plan)?;
        match &self.runner {
            Runner::Cpu(_) => {
                let job = cpu::CpuJob {
                    program: Arc::new(cpu::CpuProgram::new(Arc::new(plan))),
                    uploads: host.uploads,
                    residents: host.residents,
                    functions: Vec::new(),
                    permit: Permit::default(),
                    timeline: Timeline::default(),
                };
                Ok(Probe::Cpu(job))
            }
            #[cfg(feature = "gpu")]
            Runner::Gpu(gpu) => {
                let kernels = gpu.compile(self.lowered(&plan), ()).await?;
                Ok(Probe::Gpu {
                    kernels,
                    residents: host.on(gpu)?,
                    uploads: host.uploads,
                    plan: Arc::new(plan),
                })
            }
        }
    }

    /// Seconds of one run.
    async fn run(&self, probe: &Probe) -> Result<f64> {
        match (probe, &self.runner) {
            (Probe::Cpu(job), Runner::Cpu(pool)) => {
                let job = job.clone();
                let running = Stopwatch::started();
                let run = match cpu::Here::begin(&job.program) {
                    Some(here) => here.run(&job.program, job.given(), pool, &job.timeline)?,
                    None => cpu::run_off_thread(job, pool).await?,
                };
                let seconds = running.total().as_secs_f64();
                drop(run);
                Ok(seconds)
            }
            #[cfg(feature = "gpu")]
            (Probe::Gpu { plan, kernels, uploads, residents }, Runner::Gpu(gpu)) => {
                let running = Stopwatch::started();
                let uploads = uploads.iter().map(|data| Arc::clone(data) as gpu::HostData);
                let job = gpu::Job {
                    plan: Arc::clone(plan),
                    kernels: Arc::clone(kernels),
                    uploads: uploads.collect(),
                    residents: residents.clone(),
                    permit: Permit::default(),
                    timeline: Timeline::default(),
                };
                gpu.run(job).await?;
                Ok(running.total().as_secs_f64())
            }
            #[cfg(feature = "gpu")]
            _ => Ok(0.0),
        }
    }
}

/// A plan with its data, ready to run on one side.
enum Probe {
    Cpu(cpu::CpuJob),
    #[cfg(feature = "gpu")]
    Gpu {
        plan: Arc<Plan>,
        kernels: Arc<Kernels>,
        uploads: Vec<Arc<HostBuffer>>,
        residents: Vec<Arc<DeviceBuffer>>,
    },
}

/// The data of a probe: one buffer for all inputs of one length.
struct Host {
    uploads: Vec<Arc<HostBuffer>>,
    residents: Vec<Arc<HostBuffer>>,
}

impl Bench<'_> {
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

    /// So many elements, all the same.
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

#[cfg(feature = "gpu")]
impl Host {
    /// The residents on a GPU, each different one once.
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
