//! The last run of a batch: its plan, and its results or why there are none.

use std::sync::Arc;

use crate::device::PreparedGraph;
use crate::record::Version;
use crate::session::{RunResults, RunStats};

#[derive(Debug, Default)]
pub(super) struct LastRun {
    /// The version that ran, and its results, or why there are none.
    pub ran: Option<(Version, RunEnd)>,
    pub stats: RunStats,
}

#[derive(Debug)]
pub(super) enum RunEnd {
    Done(Arc<PreparedGraph>, RunResults),
    Failed(String),
}
