//! The times of one run: kernel by kernel, and summed over kernels alike.

mod chrome;
mod drawing;
mod kinds;
mod table;

use std::time::Duration;

pub use self::kinds::KernelKind;
use crate::base::shape::Shape;
use crate::base::trace::{TimedSpan, TimedWork, Timeline};
use crate::cost::Backend;
use crate::device::{Device, PreparedGraph};
use crate::plan::{Explanation, Measure, Plan, Step, ValueId};
use crate::session::RunStats;

/// The times of one run, from [`Program::profile`](crate::Program::profile). Prints as a table, followed by the stages, each
/// below the one that it lies in. Kernels that repeat are printed once, and `{:#}` prints each; where kernels are alike,
/// a table of their [`kinds`](Self::kinds) comes first.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, GpuCommandBatch};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.input::<f32>("x", [64, 64]);
/// x.matmul(x).softmax(1);
/// let program = batch.compile().await?;
/// program.run([(x, &[0.5; 4096])]).await?; // The first run compiles and allocates.
/// let profile = program.profile([(x, &[0.5; 4096])]).await?;
/// println!("{profile}\n{:?} in kernels", profile.kernel_time());
/// let slowest = &profile.kinds()[0];
/// println!("{} times {}: {:?}", slowest.count, slowest.kernel, slowest.time);
/// let path = std::env::temp_dir().join(format!("onetrip-{}.json", std::process::id()));
/// profile.write_trace(&path).unwrap(); // for Perfetto
/// # assert_eq!(std::fs::read_to_string(&path).unwrap(), profile.to_chrome_trace());
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Profile {
    /// The name of the device.
    pub device: String,
    /// The side that ran it: the GPU if any of it ran there.
    pub backend: Backend,
    /// The kernels in the order in which they ran.
    pub kernels: Vec<KernelProfile>,
    /// The stages of the host, and the copies of the GPU. Stages lie within each other: `execute` is the whole.
    pub stages: Vec<StageProfile>,
    /// The counts of the run.
    pub stats: RunStats,
    /// The plan that ran.
    #[cfg_attr(feature = "serde", serde(skip))]
    explanation: Explanation,
}

/// The time of one kernel.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KernelProfile {
    /// The operations fused in it, joined by `+`.
    pub kernel: String,
    /// Its form: `map`, `reduce`, `matmul` and so on.
    pub form: &'static str,
    /// The place where its last operation was recorded: `file:line`.
    pub place: String,
    /// The shapes of the values that it reads, each value once.
    #[cfg_attr(feature = "serde", serde(serialize_with = "shapes"))]
    pub inputs: Vec<Shape>,
    /// The shapes of its results.
    #[cfg_attr(feature = "serde", serde(serialize_with = "shapes"))]
    pub outputs: Vec<Shape>,
    /// The side that ran it.
    pub backend: Backend,
    /// The number of its dispatches on the GPU; 1 on the host's cores.
    pub dispatches: usize,
    /// Its start, since that of the profile. `None` for a GPU without timestamps, and for a kernel with nothing to do.
    pub start: Option<Duration>,
    /// The time from the start of its first dispatch to the end of its last.
    pub time: Option<Duration>,
    /// The time that the planner predicted.
    pub predicted: Duration,
    /// Arithmetic operations, as the planner counts them: none for a kernel of the user's own, of which it knows
    /// nothing.
    pub flops: u64,
    /// Bytes that it must at least read and write, as the planner counts them.
    pub bytes: u64,
}

/// A stage of the run on the host, or a copy on the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StageProfile {
    /// `execute`; within it the states `choose`, `admit`, `run`, `commit` and `recover`, and `collect`; within `run`
    /// `compile`, `upload`, `encode`, `submit` and `compute`; or `download`. [`RunStats::run_time`], from the first copy
    /// to the last result, is less than `run`, which compiles too.
    pub stage: &'static str,
    /// True if the GPU did it.
    pub on_gpu: bool,
    /// Its start, since that of the profile.
    pub start: Duration,
    /// The time that it took.
    pub time: Duration,
}

impl Profile {
    pub(super) fn new(
        device: &Device,
        prepared: &PreparedGraph,
        explanation: Explanation,
        stats: &RunStats,
        timeline: &Timeline,
    ) -> Self {
        let spans = timeline.spans();
        let (mut all, mut steps) = (Vec::new(), 0);
        for plan in explanation.placed().pieces.iter() {
            let dispatches = match plan.backend {
                Backend::Cpu => {
                    plan.steps.iter().map(|step| usize::from(!step.is_empty())).collect()
                }
                Backend::Gpu => device.dispatches_by_step(plan).iter().map(Vec::len).collect(),
            };
            all.extend(kernels(plan, steps, dispatches, &spans));
            steps += plan.steps.len();
        }
        Self {
            device: device.info().name.clone(),
            backend: prepared.backend(),
            kernels: all,
            stages: spans.iter().filter_map(stage).collect(),
            stats: stats.clone(),
            explanation,
        }
    }

    /// The time of all kernels together; `None` if that of one is not known.
    #[must_use]
    pub fn kernel_time(&self) -> Option<Duration> {
        let timed = self.kernels.iter().filter(|kernel| kernel.dispatches > 0);
        timed.map(|kernel| kernel.time).sum()
    }
}

/// The kernel of each step of the plan, with its number of `dispatches`. The timeline numbers the steps of all plans:
/// `before` steps come before those of this plan.
fn kernels(
    plan: &Plan,
    before: usize,
    dispatches: Vec<usize>,
    spans: &[TimedSpan],
) -> Vec<KernelProfile> {
    let mut first = 0;
    let shape = |value: &ValueId| plan.values[value.index()].shape.clone();
    let mut line = |(at, (step, dispatches)): (usize, (&Step, usize))| {
        let mine = first..first + dispatches;
        first = mine.end;
        let is_mine = |span: &&TimedSpan| match span.what {
            TimedWork::Step(step) => plan.backend == Backend::Cpu && step == before + at,
            TimedWork::Dispatch(dispatch) => {
                plan.backend == Backend::Gpu && mine.contains(&dispatch)
            }
            TimedWork::Host(_) | TimedWork::Copies(_) => false,
        };
        let spans = || spans.iter().filter(is_mine);
        let start = spans().map(|span| span.start).min();
        let end = spans().map(|span| span.start + span.time).max();
        let seconds = step.cost.seconds.on(plan.backend);
        KernelProfile {
            kernel: step.label(),
            form: step.form.kernel().name(),
            place: step.place.to_string(),
            inputs: step.reads().iter().map(shape).collect(),
            outputs: step.outputs.iter().map(|output| shape(&output.value)).collect(),
            backend: plan.backend,
            dispatches,
            start,
            time: end.zip(start).map(|(end, start)| end - start),
            predicted: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
            flops: if step.form.kernel().measure() == Measure::Flops { step.cost.flops } else { 0 },
            bytes: step.cost.bytes_read.saturating_add(step.cost.bytes_written),
        }
    };
    plan.steps.iter().zip(dispatches).enumerate().map(&mut line).collect()
}

fn stage(span: &TimedSpan) -> Option<StageProfile> {
    let (stage, on_gpu) = match span.what {
        TimedWork::Host(stage) => (stage, false),
        TimedWork::Copies(stage) => (stage, true),
        TimedWork::Step(_) | TimedWork::Dispatch(_) => return None,
    };
    Some(StageProfile { stage, on_gpu, start: span.start, time: span.time })
}

#[cfg(feature = "serde")]
fn shapes<S: serde::Serializer>(shapes: &[Shape], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(shapes.iter().map(Shape::dims))
}
