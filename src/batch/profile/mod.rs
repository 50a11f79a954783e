//! What took how long in one run, kernel by kernel.

mod chrome;
mod table;

use std::path::Path;
use std::time::Duration;

use crate::base::trace::{Part, Timeline, What};
use crate::cost::Backend;
use crate::device::{Device, Prepared};
use crate::plan::{Form, Plan, Step, form_name};
use crate::session::RunStats;

/// The times of one run, from [`Program::profile`](crate::Program::profile). Prints as a table.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Profile {
    /// The name of the device.
    pub device: String,
    /// The side that ran it: the GPU if any of it ran there.
    pub backend: Backend,
    /// The kernels in the order in which they ran.
    pub kernels: Vec<KernelProfile>,
    /// What the host did, and which copies the GPU made. Stages lie within each other: `execute` is the whole.
    pub stages: Vec<StageProfile>,
    /// What the run counted.
    pub stats: RunStats,
}

/// What one kernel took.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KernelProfile {
    /// The operations fused in it, joined by `+`.
    pub kernel: String,
    /// Its form: `map`, `reduce`, `matmul` and so on.
    pub form: &'static str,
    /// The side that ran it.
    pub backend: Backend,
    /// How often the GPU was dispatched for it; 1 on the host's cores.
    pub dispatches: usize,
    /// When it began, since the profile did. `None` for a GPU without timestamps, and for a kernel with nothing to do.
    pub start: Option<Duration>,
    /// What it took, from the begin of its first dispatch to the end of its last.
    pub time: Option<Duration>,
    /// What the planner predicted for that.
    pub predicted: Duration,
    /// Arithmetic operations, as the planner counts them: none for a kernel of the user's own, of which it knows nothing.
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
    /// `compile`, `upload`, `encode`, `submit` and `compute`; or `download`.
    pub stage: &'static str,
    /// Whether the GPU did it.
    pub on_gpu: bool,
    /// When it began, since the profile did.
    pub start: Duration,
    /// What it took.
    pub time: Duration,
}

impl Profile {
    pub(super) fn new(
        device: &Device,
        prepared: &Prepared,
        stats: &RunStats,
        timeline: &Timeline,
    ) -> Self {
        let parts = timeline.parts();
        let (mut all, mut steps) = (Vec::new(), 0);
        for plan in prepared.pieces.iter().map(|piece| &piece.plan) {
            let dispatches = match plan.backend {
                Backend::Cpu => {
                    plan.steps.iter().map(|step| usize::from(!step.is_empty())).collect()
                }
                Backend::Gpu => device.dispatches_by_step(plan).iter().map(Vec::len).collect(),
            };
            all.extend(kernels(plan, steps, dispatches, &parts));
            steps += plan.steps.len();
        }
        Self {
            device: device.info().name.clone(),
            backend: prepared.backend(),
            kernels: all,
            stages: parts.iter().filter_map(stage).collect(),
            stats: stats.clone(),
        }
    }

    /// The time of all kernels together; `None` if that of one is not known.
    #[must_use]
    pub fn kernel_time(&self) -> Option<Duration> {
        let timed = self.kernels.iter().filter(|kernel| kernel.dispatches > 0);
        timed.map(|kernel| kernel.time).sum()
    }

    /// The profile as a trace for Perfetto (`ui.perfetto.dev`) or `chrome://tracing`: JSON with a lane for the host's
    /// stages, one for the host's cores and one for the GPU. The GPU's lane is shifted so that its work ends when the
    /// host learned of it, since the two have no common clock.
    #[must_use]
    pub fn to_chrome_trace(&self) -> String {
        chrome::trace(self)
    }

    /// Writes [`to_chrome_trace`](Self::to_chrome_trace) to a file.
    ///
    /// # Errors
    /// Those of [`std::fs::write`].
    pub fn write_trace(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        std::fs::write(path, self.to_chrome_trace())
    }
}

/// A line for each step of the plan, of which `dispatches` says how many dispatches each takes. `before` it are so many
/// steps of other plans.
fn kernels(
    plan: &Plan,
    before: usize,
    dispatches: Vec<usize>,
    parts: &[Part],
) -> Vec<KernelProfile> {
    let mut first = 0;
    let mut line = |(at, (step, dispatches)): (usize, (&Step, usize))| {
        let mine = first..first + dispatches;
        first = mine.end;
        let is_mine = |part: &&Part| match part.what {
            What::Step(step) => plan.backend == Backend::Cpu && step == before + at,
            What::Dispatch(dispatch) => plan.backend == Backend::Gpu && mine.contains(&dispatch),
            What::Host(_) | What::Copies(_) => false,
        };
        let parts = || parts.iter().filter(is_mine);
        let start = parts().map(|part| part.start).min();
        let end = parts().map(|part| part.start + part.time).max();
        let seconds = match plan.backend {
            Backend::Cpu => step.cost.cpu_seconds,
            Backend::Gpu => step.cost.gpu_seconds,
        };
        KernelProfile {
            kernel: step.label(),
            form: form_name(step),
            backend: plan.backend,
            dispatches,
            start,
            time: end.zip(start).map(|(end, start)| end - start),
            predicted: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
            flops: if let Form::Own(_) = step.form { 0 } else { step.cost.flops },
            bytes: step.cost.bytes_read.saturating_add(step.cost.bytes_written),
        }
    };
    plan.steps.iter().zip(dispatches).enumerate().map(&mut line).collect()
}

fn stage(part: &Part) -> Option<StageProfile> {
    let (stage, on_gpu) = match part.what {
        What::Host(stage) => (stage, false),
        What::Copies(stage) => (stage, true),
        What::Step(_) | What::Dispatch(_) => return None,
    };
    Some(StageProfile { stage, on_gpu, start: part.start, time: part.time })
}
