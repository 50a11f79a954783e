//! One run of a plan, and what it brings back.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::fault::fault;
use super::leg::Leg;
use super::read::Found;
use super::recorded::Recorded;
use super::residence::Left;
use super::stats::RunStats;
use crate::base::clock::{Stopwatch, nanoseconds};
use crate::base::trace::{Timeline, event, stage};
use crate::cost::{Backend, Ran};
use crate::device::{Counter, Device, Pieces, Prepared, Turn};
use crate::error::{Error, Result, RunError};
use crate::exec::HostBuffer;
use crate::exec::budget::{Permit, TooMuch};
#[cfg(feature = "gpu")]
use crate::exec::gpu::GpuRun;
use crate::graph::NodeId;
use crate::plan::Made;

/// A run that is about to be made.
pub(super) struct Run<'a> {
    pub recorded: &'a Recorded,
    /// What was planned for it.
    pub prepared: &'a Prepared,
    /// By position of the graph's uploads.
    pub uploads: &'a [Arc<HostBuffer>],
    /// The room in the device's memory budget.
    pub permit: Permit,
    /// Where the times of its parts go.
    pub timeline: &'a Timeline,
}

/// Waits for room for a run in the device's memory budget.
///
/// # Errors
/// [`RunError::OverBudget`], at once, if there will never be enough.
pub(super) async fn admit(
    recorded: &Recorded,
    prepared: &Prepared,
    timeline: &Timeline,
    stats: &mut RunStats,
) -> Result<Permit> {
    let room = stage!(timeline, "wait", bytes = prepared.bytes);
    let budget = recorded.device.budget();
    if budget.room().is_none() {
        return Ok(room.of(Permit::default));
    }
    let waiting = Stopwatch::started();
    let admitted = room.over(pin!(budget.admit(prepared.bytes))).await;
    let permit = admitted.map_err(|TooMuch { needs, budget }| RunError::OverBudget {
        of: recorded.first_result(),
        needs,
        budget,
    })?;
    stats.wait_time = waiting.total();
    Ok(permit)
}

/// What a run brought back.
pub(super) enum Results {
    Host(Vec<Arc<HostBuffer>>),
    #[cfg(feature = "gpu")]
    Gpu(GpuRun),
    Parts {
        parts: Vec<Results>,
        /// Where each download was made.
        downloads: Vec<Made>,
    },
}

/// What a run, or the run of one piece, left.
pub(super) struct Done {
    pub results: Results,
    /// What stays on the device, in the order of the plan's keeps.
    pub kept: Left,
    /// The first element that failed.
    pub failed: Option<(NodeId, u32)>,
}

impl Run<'_> {
    /// Runs, as part of a trial if it has a `turn`. With the results comes what stays on the device, in the order of the
    /// graph's keeps.
    pub async fn finish(
        &self,
        turn: Option<&mut Turn<'_>>,
        stats: &mut RunStats,
    ) -> Result<(Results, Left)> {
        let prepared = self.prepared;
        let Recorded { device, residents, .. } = self.recorded;
        let busy = device.busy();
        // What it takes to bring a resident says nothing of the steps, nor does a run whose kernels are timed.
        let all_there = || residents.iter().all(|handle| handle.is_on(prepared.backend()));
        let may_teach = prepared.was_chosen && !self.timeline.is_kept() && all_there();
        let finished = self.run(stats).await;
        let is_warm = may_teach && stats.pipelines_compiled == 0;
        if finished.is_ok() {
            let ran = if is_warm && stats.pool_misses == 0 {
                Ran::Took(nanoseconds(stats.run_time))
            } else {
                Ran::Cold
            };
            let is_trial = turn.is_some_and(|turn| device.tried(turn, ran, || busy.is_alone()));
            // What is tried is known better than by prediction.
            if is_warm && !is_trial {
                device.learn(prepared, stats.run_time, stats.pool_misses > 0, &busy);
            }
        }
        drop(busy);
        if prepared.was_chosen || prepared.is_bound_by_data {
            device.measure_some_time();
        }
        finished
    }

    async fn run(&self, stats: &mut RunStats) -> Result<(Results, Left)> {
        let Self { recorded, prepared, uploads, .. } = *self;
        stats.backend = Some(prepared.backend());
        stats.peak_bytes = prepared.peak_bytes;
        let predicted = Duration::try_from_secs_f64(prepared.seconds);
        stats.predicted_time = predicted.unwrap_or(Duration::MAX);
        let done = match &prepared.pieces {
            Pieces::Whole(piece) => {
                let leg = Leg {
                    device: &recorded.device,
                    piece,
                    uploads: Cow::Borrowed(uploads),
                    functions: &recorded.functions,
                    residents: Cow::Borrowed(&recorded.residents),
                    permit: &self.permit,
                    timeline: self.timeline.clone(),
                    is_beside: false,
                };
                leg.run(stats).await?
            }
            Pieces::Parts(parts) => Box::pin(self.in_parts(parts, stats)).await?,
        };
        if let Some((node, at)) = done.failed {
            return Err(fault(&recorded.graph, uploads, node, at).into());
        }
        Ok((done.results, done.kept))
    }
}

impl Results {
    /// What was brought back for `node`, if it was.
    pub fn find(&self, prepared: &Prepared, node: NodeId) -> Option<Found> {
        let at = prepared.outputs.iter().position(|&output| output == node)?;
        Some(self.get(at))
    }

    /// What was downloaded as number `at`.
    pub fn get(&self, at: usize) -> Found {
        match self {
            Self::Host(buffers) => Found::Host(Arc::clone(&buffers[at])),
            #[cfg(feature = "gpu")]
            Self::Gpu(run) => Found::Gpu(run.download(at)),
            Self::Parts { parts, downloads } => {
                let Made { part, at } = downloads[at];
                parts[part].get(at)
            }
        }
    }
}

impl std::fmt::Debug for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(buffers) => write!(f, "Results({} on the host)", buffers.len()),
            #[cfg(feature = "gpu")]
            Self::Gpu(run) => write!(f, "Results({} from the GPU)", run.len()),
            Self::Parts { parts, .. } => write!(f, "{parts:?}"),
        }
    }
}

/// Counts what an attempt at a run did, and says so.
pub(super) fn tell(device: &Device, stats: &RunStats, failed: Option<&Error>) {
    let counters = device.counters();
    counters.add(Counter::SharedSubmits, stats.shared_submits);
    counters.add(Counter::Kernels, stats.dispatches);
    counters.add(Counter::BytesUp, stats.bytes_up);
    counters.add(Counter::BytesDown, stats.bytes_down);
    counters.spend(Counter::WaitNanos, stats.wait_time);
    counters.spend(Counter::RunNanos, stats.run_time);
    if failed.is_none() {
        let on_gpu = stats.backend == Some(Backend::Gpu);
        counters.add(if on_gpu { Counter::GpuRuns } else { Counter::CpuRuns }, 1);
        counters.spend(Counter::PredictedNanos, stats.predicted_time);
    }
    match failed {
        None => event!(
            DEBUG,
            "ran",
            backend = stats.backend.map(|side| side.to_string()),
            kernels = stats.dispatches,
            bytes_up = stats.bytes_up,
            bytes_down = stats.bytes_down,
            seconds = stats.run_time.as_secs_f64(),
            predicted_seconds = stats.predicted_time.as_secs_f64(),
        ),
        Some(error) => event!(WARN, "run failed", error = error.to_string()),
    }
}
