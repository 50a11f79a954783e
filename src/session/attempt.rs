//! One attempt at a run, by one plan. A graph that is split has parts on the host's cores and one on the GPU, in one trip.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::fault::fault;
use super::piece_run::PieceRun;
use super::results::{PieceDone, SplitResults};
use super::{RunResults, RunStats};
use crate::base::clock::Stopwatch;
use crate::base::future::both;
use crate::base::trace::Timeline;
use crate::device::{PreparedGraph, PreparedPlan};
use crate::error::{DeviceError, Result};
use crate::exec::HostBuffer;
use crate::exec::budget::Permit;
use crate::graph::NodeId;
use crate::plan::{PartValue, Phase, Pieces, Split, Supply};
use crate::record::Record;
use crate::residents::KeptValues;

type Finished = Vec<Option<PieceDone>>;

/// An attempt that is about to be made.
pub(super) struct Attempt<'a> {
    pub recorded: &'a Record,
    pub prepared: &'a PreparedGraph,
    /// The data of the graph's uploads, by position.
    pub uploads: &'a [Arc<HostBuffer>],
    /// The room in the device's memory budget.
    pub permit: Permit,
    pub timeline: &'a Timeline,
}

impl Attempt<'_> {
    /// The run of a short plan on the host's cores, in this thread; `None` for other plans. With the results come the values
    /// for residents, in the order of the graph's keeps.
    pub fn run_inline(&self, stats: &mut RunStats) -> Option<Result<(RunResults, KeptValues)>> {
        stats.backend = Some(self.prepared.backend());
        stats.peak_bytes = self.prepared.peak_bytes;
        let predicted = Duration::try_from_secs_f64(self.prepared.placed.seconds());
        stats.predicted_time = predicted.unwrap_or(Duration::MAX);
        let Pieces::Whole(piece) = &self.prepared.pieces else { return None };
        let done = self.whole(piece).run_inline(stats)?;
        Some(done.and_then(|done| self.checked(done)))
    }

    /// As [`run_inline`](Self::run_inline), for the plans that it leaves to other threads or a GPU.
    pub async fn run(&self, stats: &mut RunStats) -> Result<(RunResults, KeptValues)> {
        let done = match &self.prepared.pieces {
            Pieces::Whole(piece) => self.whole(piece).run_off_thread(stats).await?,
            Pieces::Split(split) => Box::pin(self.run_split(split, stats)).await?,
        };
        self.checked(done)
    }

    fn whole<'a>(&'a self, piece: &'a PreparedPlan) -> PieceRun<'a> {
        PieceRun {
            device: &self.recorded.device,
            piece,
            uploads: Cow::Borrowed(self.uploads),
            functions: &self.recorded.functions,
            residents: Cow::Borrowed(&self.recorded.residents),
            permit: &self.permit,
            timeline: self.timeline.clone(),
            is_beside: false,
        }
    }

    /// # Errors
    /// The fault of a run whose data had one.
    fn checked(&self, done: PieceDone) -> Result<(RunResults, KeptValues)> {
        match done.failed {
            Some((node, at)) => Err(fault(self.recorded, self.uploads, node, at).into()),
            None => Ok((done.results, done.kept)),
        }
    }

    /// Runs all parts, those that do not wait for each other at the same time.
    async fn run_split(
        &self,
        split: &Split<PreparedPlan>,
        stats: &mut RunStats,
    ) -> Result<PieceDone> {
        let running = Stopwatch::started();
        // A run that fails counts nothing.
        let mut counts = stats.clone();
        let mut finished: Finished = split.parts.iter().map(|_| None).collect();
        let at = |phase| split.parts.iter().position(|part| part.phase == phase);
        for phases in [&[Phase::Before][..], &[Phase::Beside, Phase::Gpu], &[Phase::After]] {
            match phases.iter().filter_map(|&phase| at(phase)).collect::<Vec<_>>()[..] {
                [one] => {
                    let mut counted = RunStats::default();
                    let done = self.piece(split, one, &finished).await?.run(&mut counted).await?;
                    finished[one] = Some(done);
                    counts.add(&counted);
                }
                // The host's part starts first: its threads work while this thread submits the GPU's part.
                [beside, on_gpu] => {
                    let mut counted = [RunStats::default(), RunStats::default()];
                    let pieces = [
                        self.piece(split, beside, &finished).await?,
                        self.piece(split, on_gpu, &finished).await?,
                    ];
                    let [of_beside, of_gpu] = &mut counted;
                    let [beside_run, gpu_run] = pieces;
                    let (one, other) = both(beside_run.run(of_beside), gpu_run.run(of_gpu)).await;
                    (finished[beside], finished[on_gpu]) = (Some(one?), Some(other?));
                    counted.iter().for_each(|counted| counts.add(counted));
                }
                _ => {}
            }
        }
        counts.run_time = running.total().saturating_sub(counts.compile_time);
        *stats = counts;
        self.joined(split, finished)
    }

    async fn piece<'a>(
        &'a self,
        split: &'a Split<PreparedPlan>,
        at: usize,
        finished: &Finished,
    ) -> Result<PieceRun<'a>> {
        let own = &split.parts[at];
        let mut uploads = Vec::with_capacity(own.uploads.len());
        for supply in &own.uploads {
            uploads.push(match *supply {
                Supply::Upload(upload) => self.uploads[upload as usize].clone(),
                Supply::Part(PartValue { part, at }) => {
                    let done = finished[part].as_ref().ok_or_else(not_run)?;
                    done.results.get(at).into_host().await?
                }
            });
        }
        let before = split.parts[..at].iter();
        let residents =
            own.residents.iter().map(|&at| self.recorded.residents[at as usize].clone());
        Ok(PieceRun {
            device: &self.recorded.device,
            piece: &own.plan,
            uploads: Cow::Owned(uploads),
            functions: &self.recorded.functions,
            residents: Cow::Owned(residents.collect()),
            permit: &self.permit,
            timeline: self
                .timeline
                .after_steps(before.map(|part| part.plan.plan.steps.len()).sum()),
            is_beside: own.phase == Phase::Beside,
        })
    }

    /// The parts as one run of the graph.
    fn joined(&self, split: &Split<PreparedPlan>, finished: Finished) -> Result<PieceDone> {
        let finished: Option<Vec<PieceDone>> = finished.into_iter().collect();
        let finished = finished.ok_or_else(not_run)?;
        let position = |node: NodeId| self.recorded.graph.iter().position(|(id, _)| id == node);
        let failed = finished.iter().filter_map(|done| done.failed);
        Ok(PieceDone {
            failed: failed.min_by_key(|&(node, at)| (position(node), at)),
            kept: split
                .keeps
                .iter()
                .map(|made| finished[made.part].kept[made.at].clone())
                .collect(),
            results: RunResults::Split(Box::new(SplitResults {
                parts: finished.into_iter().map(|done| done.results).collect(),
                downloads: split.downloads.clone(),
            })),
        })
    }
}

/// The error if a part is started before the part whose result it reads.
fn not_run() -> DeviceError {
    DeviceError::broken("a part that is read from was not run")
}
