//! The last run of a batch: its plan, and its results or why there are none.

use std::sync::Arc;

use crate::device::Prepared;
use crate::record::Version;
use crate::session::{LastPlan, RunResults, RunStats};

#[derive(Debug, Default)]
pub(super) struct LastRun {
    plan: (u64, Arc<LastPlan>),
    /// The version that ran, and its results, or why there are none.
    pub ran: Option<(Version, RunEnd)>,
    pub stats: RunStats,
}

#[derive(Debug)]
pub(super) enum RunEnd {
    Done(Arc<Prepared>, RunResults),
    Failed(String),
}

impl LastRun {
    /// The plan of the graph of this version, still to be made unless a run of that version was before.
    pub fn plan_of(&mut self, version: Version) -> Arc<LastPlan> {
        if self.plan.0 != version.graph {
            self.plan = (version.graph, Arc::default());
        }
        Arc::clone(&self.plan.1)
    }
}
