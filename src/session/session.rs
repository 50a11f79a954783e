//! A session: one record, and what its runs, plans and explanations share.

use std::time::Duration;

use crate::base::process::ForkGuard;
use crate::base::sync::Mutex;
use crate::base::trace::{OFF, Timeline};
use crate::device::PlanChoice;
use crate::error::{DeviceError, Result};
use crate::record::{Record, Version};

/// The choice of the last run with the version of its graph. The next run goes by it if it still holds.
#[derive(Debug, Default)]
pub(crate) struct LastChoice(Mutex<Option<(u64, PlanChoice)>>);

/// The work on one record, for a batch or for a program: its runs, compilations and explanations.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(super) recorded: &'a Record,
    last_choice: &'a LastChoice,
    version: Version,
    /// Receives the times of the run's stages.
    pub(super) timeline: &'a Timeline,
    /// The time that a run is given.
    pub limit: Option<Duration>,
    /// True for a run on zeros. No counter of runs counts it, it fills no resident, and it is left out where others leave it
    /// no cores.
    pub is_on_zeros: bool,
}

impl Record {
    /// A session of this record, which is of `version`, by `last_choice` where that still holds.
    pub(crate) fn session<'a>(
        &'a self,
        version: Version,
        last_choice: &'a LastChoice,
    ) -> Session<'a> {
        self.timed_session(version, last_choice, &OFF)
    }

    /// As [`session`](Self::session), whose times go to `timeline`.
    pub(crate) fn timed_session<'a>(
        &'a self,
        version: Version,
        last_choice: &'a LastChoice,
        timeline: &'a Timeline,
    ) -> Session<'a> {
        let (limit, is_on_zeros) = (None, false);
        Session { recorded: self, version, last_choice, timeline, limit, is_on_zeros }
    }
}

impl Session<'_> {
    /// The choice of the last run of this graph if it `fits`, else that of `choose`.
    pub(super) fn last_or_new_choice(
        &self,
        fits: impl FnOnce(&PlanChoice) -> bool,
        choose: impl FnOnce() -> Result<PlanChoice>,
    ) -> Result<PlanChoice> {
        let graph = self.version.graph;
        if let Some((of, choice)) = &*self.last_choice.0.lock()
            && *of == graph
            && fits(choice)
        {
            return Ok(choice.clone());
        }
        let choice = choose()?;
        *self.last_choice.0.lock() = Some((graph, choice.clone()));
        Ok(choice)
    }
}

/// The guard that a thread holds while it takes the locks of a device, so that no fork comes meanwhile.
///
/// # Errors
/// [`DeviceError::Forked`] in a child whose locks may be held by threads that it does not have.
pub(super) fn fork_guard() -> Result<ForkGuard, DeviceError> {
    ForkGuard::begin().ok_or(DeviceError::Forked)
}
