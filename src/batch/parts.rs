//! The run of a graph in parts: some on the host's cores, one on the GPU, in one trip.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::launch::{Done, Results, Run};
use super::leg::Leg;
use super::stats::RunStats;
use crate::base::clock::Stopwatch;
use crate::device::Parts;
use crate::error::{DeviceError, Result};
use crate::graph::NodeId;
use crate::plan::{Made, Stage, Supply};

/// What each part left, once it ran.
type Finished = Vec<Option<Done>>;

impl Run<'_> {
    /// Runs all parts, those that do not wait for each other at the same time.
    pub(super) async fn in_parts(&self, parts: &Parts, stats: &mut RunStats) -> Result<Done> {
        let running = Stopwatch::started();
        // Of a run that fails, nothing counts.
        let mut counts = stats.clone();
        let mut finished: Finished = parts.all.iter().map(|_| None).collect();
        let at = |stage| parts.all.iter().position(|part| part.stage == stage);
        for stages in [&[Stage::Before][..], &[Stage::Beside, Stage::Gpu], &[Stage::After]] {
            match stages.iter().filter_map(|&stage| at(stage)).collect::<Vec<_>>()[..] {
                [one] => {
                    let mut counted = RunStats::default();
                    let done = self.leg(parts, one, &finished).await?.run(&mut counted).await?;
                    finished[one] = Some(done);
                    counts.add(&counted);
                }
                // The host's part begins first: it goes to other threads, and to submit takes time.
                [beside, on_gpu] => {
                    let mut counted = [RunStats::default(), RunStats::default()];
                    let legs = [
                        self.leg(parts, beside, &finished).await?,
                        self.leg(parts, on_gpu, &finished).await?,
                    ];
                    let [of_beside, of_gpu] = &mut counted;
                    let [beside_leg, gpu_leg] = legs;
                    let (one, other) = both(beside_leg.run(of_beside), gpu_leg.run(of_gpu)).await;
                    (finished[beside], finished[on_gpu]) = (Some(one?), Some(other?));
                    counted.iter().for_each(|counted| counts.add(counted));
                }
                _ => {}
            }
        }
        counts.run_time = running.total().saturating_sub(counts.compile_time);
        *stats = counts;
        self.gathered(parts, finished)
    }

    /// A part with what it reads.
    async fn leg<'a>(
        &'a self,
        parts: &'a Parts,
        at: usize,
        finished: &Finished,
    ) -> Result<Leg<'a>> {
        let own = &parts.all[at];
        let mut uploads = Vec::with_capacity(own.uploads.len());
        for supply in &own.uploads {
            uploads.push(match *supply {
                Supply::Upload(upload) => self.uploads[upload as usize].clone(),
                Supply::Made(Made { part, at }) => {
                    let done = finished[part].as_ref().ok_or_else(not_run)?;
                    done.results.get(at).into_host().await?
                }
            });
        }
        let before = parts.all[..at].iter();
        let residents =
            own.residents.iter().map(|&at| self.recorded.residents[at as usize].clone());
        Ok(Leg {
            device: &self.recorded.device,
            piece: &own.piece,
            uploads: Cow::Owned(uploads),
            functions: &self.recorded.functions,
            residents: Cow::Owned(residents.collect()),
            permit: &self.permit,
            timeline: self
                .timeline
                .after_steps(before.map(|part| part.piece.plan.steps.len()).sum()),
            is_beside: own.stage == Stage::Beside,
        })
    }

    /// All of it as the graph has it.
    fn gathered(&self, parts: &Parts, finished: Finished) -> Result<Done> {
        let finished: Option<Vec<Done>> = finished.into_iter().collect();
        let finished = finished.ok_or_else(not_run)?;
        let position = |node: NodeId| self.recorded.graph.iter().position(|(id, _)| id == node);
        let failed = finished.iter().filter_map(|done| done.failed);
        Ok(Done {
            failed: failed.min_by_key(|&(node, at)| (position(node), at)),
            kept: parts
                .keeps
                .iter()
                .map(|made| finished[made.part].kept[made.at].clone())
                .collect(),
            results: Results::Parts {
                parts: finished.into_iter().map(|done| done.results).collect(),
                downloads: parts.downloads.clone(),
            },
        })
    }
}

/// Parts run after those that they read from, each once.
fn not_run() -> DeviceError {
    DeviceError::broken("a part that is read from was not run")
}

/// Both results, of two futures that are polled in turn.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(done) = one.as_mut().poll(context)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = other.as_mut().poll(context)
        {
            second = Some(done);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            halves => {
                (first, second) = halves;
                Poll::Pending
            }
        }
    })
    .await
}
