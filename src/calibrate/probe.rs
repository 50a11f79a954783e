//! Running one probe on one side in turns with a shorter run, and the times that they take.

use std::sync::Arc;

use super::graphs;
#[cfg(test)]
use super::model::ModelDevice;
use super::pairs::{Difference, RunPairs};
use super::probe_groups::Deadline;
use super::subject::{Pace, Subject};
use crate::base::clock::{Stopwatch, step};
use crate::base::dtype::DType;
use crate::base::sync::Mutex;
use crate::base::trace::Timeline;
use crate::codegen::{Dispatch, lower};
use crate::cost::Backend;
#[cfg(test)]
use crate::cost::Prediction;
use crate::error::{Result, RunError};
use crate::exec::budget::Permit;
use crate::exec::gpu::{DeviceBuffer, Gpu, GpuRunInputs, HostData};
use crate::exec::{HostBuffer, HostPool, cpu, memory, threads};
use crate::graph::Graph;
use crate::plan::{Home, Plan, Target, plan};

/// Seconds for which a short probe is repeated. A card that was idle gets faster for a few runs (an H200 for half a
/// millisecond).
const SETTLING: f64 = 0.0006;
/// The same on the cores, which settle sooner.
const SETTLING_CPU: f64 = 0.0003;

/// Steps of a browser's clock that a sample takes at least, so that a step is a tenth of it. They are up to 0.1 ms long, in
/// which a small probe runs a hundred times.
const STEPS: f64 = 10.0;
/// Seconds for which no coarser clock lengthens a sample.
const LONGEST: f64 = 0.004;
/// Most runs of a sample.
const MOST_TIMES: usize = 1 << 13;

/// One side, ready to run probes.
pub(super) struct Bench<'a> {
    pub target: &'a Target,
    runner: Runner<'a>,
    pace: &'a dyn Pace,
    data: &'a ProbeData,
    /// Seconds that a sample takes at least; 0 for a fine clock, by which each sample is one run.
    shortest: f64,
    /// Runs of kernels that do next to nothing, by the number of kernels.
    empty: Mutex<Vec<(usize, Probe<'a>)>>,
}

/// The shorter run beside a probe.
pub(super) enum Beside {
    /// As many kernels as the probe has, which do next to nothing.
    Empty,
    Graph(Option<Graph>),
}

/// The data that probes read, by length. Fresh memory takes longer to fill than most probes take.
pub(super) type ProbeData = Mutex<Vec<Arc<HostBuffer>>>;

enum Runner<'a> {
    Cpu(&'a Arc<HostPool>),
    Gpu(&'a Gpu),
    #[cfg(test)]
    Model(&'a ModelDevice),
}

/// The time of a run of several equal pieces, beside that of a shorter run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProbeTiming {
    pub difference: Difference,
    /// Flops of one piece.
    pub flops: f64,
    /// Bytes that one piece reads and writes.
    pub bytes: f64,
    /// Bytes that the run uploads and downloads.
    pub moved: f64,
}

impl<'a> Bench<'a> {
    pub fn on_cpu(subject: &'a Subject, pace: &'a dyn Pace, data: &'a ProbeData) -> Self {
        Self::new(&subject.cpu, Runner::Cpu(&subject.pool), pace, data)
    }

    pub fn on_gpu(
        gpu: &'a Gpu,
        target: &'a Target,
        pace: &'a dyn Pace,
        data: &'a ProbeData,
    ) -> Self {
        Self::new(target, Runner::Gpu(gpu), pace, data)
    }

    #[cfg(test)]
    pub fn on_model(
        model: &'a ModelDevice,
        target: &'a Target,
        pace: &'a dyn Pace,
        data: &'a ProbeData,
    ) -> Self {
        Self::new(target, Runner::Model(model), pace, data)
    }

    fn new(
        target: &'a Target,
        runner: Runner<'a>,
        pace: &'a dyn Pace,
        data: &'a ProbeData,
    ) -> Self {
        let shortest =
            if cfg!(target_arch = "wasm32") { (STEPS * step()).min(LONGEST) } else { 0.0 };
        Self { target, runner, pace, data, shortest, empty: Mutex::default() }
    }

    pub fn side(&self) -> Backend {
        self.target.backend
    }

    /// As [`time_plan`](Self::time_plan), for `graph`; `None` also if the device has no plan for a graph.
    pub async fn time(
        &self,
        graph: Option<Graph>,
        beside: Beside,
        deadline: Deadline,
    ) -> Result<Option<ProbeTiming>> {
        match self.planned(graph) {
            Some(plan) => self.time_plan(plan, beside, deadline).await,
            None => Ok(None),
        }
    }

    /// The time of `plan` in turns with a shorter run, their residents and uploads filled with one number; `None` if no
    /// time is left for them.
    ///
    /// # Errors
    /// [`RunError::Cancelled`] if the pace says to stop; if the device fails.
    pub async fn time_plan(
        &self,
        plan: Plan,
        beside: Beside,
        deadline: Deadline,
    ) -> Result<Option<ProbeTiming>> {
        self.go_on()?;
        if !deadline.may_begin() {
            return Ok(None);
        }
        let first = plan.steps.first().map(|step| step.cost).unwrap_or_default();
        let moved = (plan.bytes_up + plan.bytes_down) as f64;
        let bytes = (first.bytes_read + first.bytes_written) as f64;
        let shorter = match beside {
            Beside::Empty => self.empty(plan.dispatches() as usize).await?,
            Beside::Graph(graph) => self.probe(graph).await?,
        };
        let (Some(shorter), longer) = (shorter, self.prepare(plan).await?) else {
            return Ok(None);
        };
        let difference = self.difference(&shorter, &longer, Some(deadline)).await?;
        let timing =
            |difference| ProbeTiming { difference, flops: first.flops as f64, bytes, moved };
        Ok(difference.map(timing))
    }

    /// The difference of runs of `few` and of `many` kernels that do next to nothing; `None` if the device has no plan for
    /// them.
    pub async fn time_empty(&self, few: usize, many: usize) -> Result<Option<Difference>> {
        match (self.empty(few).await?, self.empty(many).await?) {
            (Some(few), Some(many)) => self.difference(&few, &many, None).await,
            _ => Ok(None),
        }
    }

    /// The difference of two runs that take turns. Up to the deadline they are repeated until it is precise.
    async fn difference(
        &self,
        shorter: &Probe<'_>,
        longer: &Probe<'_>,
        deadline: Option<Deadline>,
    ) -> Result<Option<Difference>> {
        let settling = if self.side() == Backend::Cpu { SETTLING_CPU } else { SETTLING };
        // Without a deadline both runs are short, and the shorter one is a figure too.
        let times = self.times(if deadline.is_some() { longer } else { shorter }).await?;
        let mut pairs =
            RunPairs::after(shorter.run_times(times).await?, longer.run_times(times).await?);
        let has_time = || deadline.is_some_and(|deadline| deadline.left() > 0.0);
        while pairs.are_too_few(settling, has_time()) {
            self.go_on()?;
            let others = self.pace.others();
            let seconds = (shorter.run_times(times).await?, longer.run_times(times).await?);
            pairs.add(seconds.0, seconds.1, self.pace.others() == others);
        }
        Ok(pairs.difference().map(|difference| difference.of_one(times)))
    }

    /// The runs of `probe` that take long enough for the clock together.
    async fn times(&self, probe: &Probe<'_>) -> Result<usize> {
        let mut times = 1;
        if self.shortest > 0.0 {
            while times < MOST_TIMES && probe.run_times(times).await? < self.shortest {
                times *= 2;
            }
        }
        Ok(times)
    }

    /// The run of `kernels` that do next to nothing.
    async fn empty(&self, kernels: usize) -> Result<Option<Probe<'a>>> {
        let made = self.empty.lock().iter().find(|made| made.0 == kernels).cloned();
        if let Some((_, probe)) = made {
            return Ok(Some(probe));
        }
        let probe = self.probe(graphs::empty(self.side(), kernels)).await?;
        self.empty.lock().extend(probe.clone().map(|probe| (kernels, probe)));
        Ok(probe)
    }

    async fn probe(&self, graph: Option<Graph>) -> Result<Option<Probe<'a>>> {
        match self.planned(graph) {
            Some(plan) => Ok(Some(self.prepare(plan).await?)),
            None => Ok(None),
        }
    }

    /// Fails if the pace says to stop.
    fn go_on(&self) -> Result<(), RunError> {
        if self.pace.may_go_on() { Ok(()) } else { Err(RunError::Cancelled) }
    }

    /// The plans of `graphs`, without graphs that have none.
    pub fn plans(&self, graphs: impl Iterator<Item = Option<Graph>>) -> impl Iterator<Item = Plan> {
        graphs.filter_map(|graph| self.planned(graph))
    }

    fn planned(&self, graph: Option<Graph>) -> Option<Plan> {
        plan(&graph?, self.target).ok()
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

    async fn prepare(&self, mut plan: Plan) -> Result<Probe<'a>> {
        // Without waves, the times of transfers and of computation add up.
        plan.waves.clear();
        #[cfg(test)]
        if let Runner::Model(model) = &self.runner {
            return Ok(Probe::Model(plan.predicted(self.target), model));
        }
        let host = self.host(&plan)?;
        match &self.runner {
            #[cfg(test)]
            Runner::Model(_) => unreachable!("it has no data"),
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
                let job = GpuRunInputs {
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
#[derive(Clone)]
enum Probe<'a> {
    Cpu(cpu::CpuJob, &'a Arc<HostPool>),
    Gpu(GpuRunInputs, &'a Gpu),
    #[cfg(test)]
    Model(Prediction, &'a ModelDevice),
}

impl Probe<'_> {
    /// Seconds of so many runs.
    async fn run_times(&self, times: usize) -> Result<f64> {
        if times == 1 {
            return self.run().await;
        }
        let running = Stopwatch::started();
        for _ in 0..times {
            self.run().await?;
        }
        Ok(running.total().as_secs_f64())
    }

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
            #[cfg(test)]
            Self::Model(prediction, model) => Ok(model.run(prediction)),
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
