//! A session: one record, and what its runs, plans and explanations share.

use std::time::Duration;

use crate::base::process::ForkGuard;
use crate::base::sync::Mutex;
use crate::base::trace::{OFF, Timeline};
use crate::device::PlanChoice;
use crate::error::DeviceError;
use crate::record::Record;

/// The choice of the last run, which the next one goes by if it still holds.
#[derive(Debug, Default)]
pub(crate) struct LastChoice(Mutex<Option<PlanChoice>>);

impl LastChoice {
    pub(super) fn get(&self) -> Option<PlanChoice> {
        self.0.lock().clone()
    }

    pub(super) fn set(&self, choice: &PlanChoice) {
        *self.0.lock() = Some(choice.clone());
    }
}

/// The work on one record, for a batch or for a program: its runs, compilations and explanations.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(super) recorded: &'a Record,
    pub(super) last_choice: &'a LastChoice,
    /// Receives the times of the run's stages.
    pub(super) timeline: &'a Timeline,
    /// The time that a run is given.
    pub limit: Option<Duration>,
}

impl Record {
    /// A session of this record as it stands, by `last_choice` where that still holds.
    pub(crate) fn session<'a>(&'a self, last_choice: &'a LastChoice) -> Session<'a> {
        self.timed_session(last_choice, &OFF)
    }

    /// As [`session`](Self::session), whose times go to `timeline`.
    pub(crate) fn timed_session<'a>(
        &'a self,
        last_choice: &'a LastChoice,
        timeline: &'a Timeline,
    ) -> Session<'a> {
        Session { recorded: self, last_choice, timeline, limit: None }
    }
}

/// The guard that a thread holds while it takes the locks of a device, so that no fork comes meanwhile.
///
/// # Errors
/// [`DeviceError::Forked`] in a child whose locks may be held by threads that it does not have.
pub(super) fn fork_guard() -> Result<ForkGuard, DeviceError> {
    ForkGuard::begin().ok_or(DeviceError::Forked)
}
