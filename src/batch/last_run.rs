//! The last run of a batch: its plan, and its results or why there are none.

use std::sync::Arc;

use crate::device::PreparedGraph;
use crate::error::Error;
use crate::record::Version;
use crate::session::{RunResults, RunStats};

#[derive(Debug, Default)]
pub(super) struct LastRun {
    /// The version that ran, and its results, or why there are none.
    pub ran: Option<(Version, RunEnd)>,
    pub stats: RunStats,
}

impl LastRun {
    pub fn fail(&mut self, version: Version, error: &Error) {
        self.ran = Some((version, RunEnd::Failed(error.to_string())));
    }
}

#[derive(Debug)]
pub(super) enum RunEnd {
    Done(Arc<PreparedGraph>, RunResults),
    Failed(String),
}
