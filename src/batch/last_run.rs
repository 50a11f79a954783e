//! The last run of a batch: its plan, and its results or why there are none.

use std::sync::Arc;

use crate::device::PreparedGraph;
use crate::record::Version;
use crate::session::{LastChoice, RunResults, RunStats};

#[derive(Debug, Default)]
pub(super) struct LastRun {
    choice: (u64, Arc<LastChoice>),
    /// The version that ran, and its results, or why there are none.
    pub ran: Option<(Version, RunEnd)>,
    pub stats: RunStats,
}

#[derive(Debug)]
pub(super) enum RunEnd {
    Done(Arc<PreparedGraph>, RunResults),
    Failed(String),
}

impl LastRun {
    /// The choice of the last run for the graph of this version; empty before that run.
    pub fn choice_for(&mut self, version: Version) -> Arc<LastChoice> {
        if self.choice.0 != version.graph {
            self.choice = (version.graph, Arc::default());
        }
        Arc::clone(&self.choice.1)
    }
}
