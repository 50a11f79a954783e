//! The time that is left to a run of several trips.

use std::time::Duration;

use crate::base::clock::Stopwatch;
use crate::error::{Error, RunError};
use crate::exec::deadline;
use crate::record::Record;

/// The time that a run may take, from its first poll on; without a limit, any.
pub(super) struct TimeLeft<'a> {
    recorded: &'a Record,
    limit: Option<Duration>,
    begun: Stopwatch,
}

impl<'a> TimeLeft<'a> {
    /// The time begins.
    pub fn of(recorded: &'a Record, limit: Option<Duration>) -> Self {
        Self { recorded, limit, begun: Stopwatch::started() }
    }

    /// The limit of the next trip.
    pub fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.begun.total()))
    }

    /// Fails if nothing is left.
    pub fn check(&self) -> Result<(), Error> {
        if self.left() == Some(Duration::ZERO) { Err(self.end_late()) } else { Ok(()) }
    }

    /// The output of `work`, which is no run, if the time suffices.
    pub async fn within<R>(
        &self,
        work: impl Future<Output = Result<R, Error>>,
    ) -> Result<R, Error> {
        deadline::within(self.left(), work).await.unwrap_or_else(|_| Err(self.end_late()))
    }

    /// The error of a trip, with the whole limit.
    pub fn error_of_trip(&self, mut error: Error) -> Error {
        if let (Error::Run(RunError::Deadline { limit, .. }), Some(whole)) =
            (&mut error, self.limit)
        {
            *limit = whole;
        }
        error
    }

    /// The run ends between its trips, and is counted.
    fn end_late(&self) -> Error {
        self.recorded.device.counted(true).end_late();
        let limit = self.limit.unwrap_or_default();
        RunError::Deadline { of: self.recorded.first_result(), limit }.into()
    }
}
