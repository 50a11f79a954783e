//! One attempt at a run, by one plan.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::fault::fault;
use super::piece_run::PieceRun;
use super::{RunResults, RunStats};
use crate::base::trace::Timeline;
use crate::device::{CompiledPieces, Prepared};
use crate::error::Result;
use crate::exec::HostBuffer;
use crate::exec::budget::Permit;
use crate::record::Recorded;
use crate::residents::KeptValues;

/// An attempt that is about to be made.
pub(super) struct SingleRun<'a> {
    pub recorded: &'a Recorded,
    pub prepared: &'a Prepared,
    /// The data of the graph's uploads, by position.
    pub uploads: &'a [Arc<HostBuffer>],
    /// The room in the device's memory budget.
    pub permit: Permit,
    pub timeline: &'a Timeline,
}

impl SingleRun<'_> {
    /// Runs. With the results come the values for residents, in the order of the graph's keeps.
    pub async fn run_plan(&self, stats: &mut RunStats) -> Result<(RunResults, KeptValues)> {
        let Self { recorded, prepared, uploads, .. } = *self;
        stats.backend = Some(prepared.backend());
        stats.peak_bytes = prepared.peak_bytes;
        let predicted = Duration::try_from_secs_f64(prepared.seconds);
        stats.predicted_time = predicted.unwrap_or(Duration::MAX);
        let done = match &prepared.pieces {
            CompiledPieces::Whole(piece) => {
                let run = PieceRun {
                    device: &recorded.device,
                    piece,
                    uploads: Cow::Borrowed(uploads),
                    functions: &recorded.functions,
                    residents: Cow::Borrowed(&recorded.residents),
                    permit: &self.permit,
                    timeline: self.timeline.clone(),
                    is_beside: false,
                };
                run.run_piece(stats).await?
            }
            CompiledPieces::Split(split) => Box::pin(self.run_split(split, stats)).await?,
        };
        if let Some((node, at)) = done.failed {
            return Err(fault(recorded, uploads, node, at).into());
        }
        Ok((done.results, done.kept))
    }
}
