//! The states of a run, and the steps from one to the next.
//!
//! ```text
//!            ┌─── the GPU was given up meanwhile ───┐
//!            ▼                                      │
//! begin ─▶ choose ───────────────────────────────▶ admit ──▶ run ──▶ commit ──▶ ended
//!            ▲                                      ▲         │                   ▲
//!            │                                      └─────────┘                   │
//!            │                          the plan on trial failed: the usual one   │
//!            └───── recover ◀── any state that fails                              │
//!                      └──────────── nothing can be done ─────────────────────────┘
//! ```

use std::fmt;

use super::results::RunDone;
use super::trial::Chosen;
use crate::error::{Error, Result};
use crate::exec::budget::Permit;

/// A run on its way.
pub(super) enum RunState {
    /// A plan is to be chosen, for data where it lies now.
    Choose,
    /// The run waits for room in the device's memory budget.
    Admit(Chosen),
    /// The kernels are to run.
    Run(Admitted),
    /// The residents are to take the values that the run left.
    Commit(RunDone),
    /// Something failed. After a loss of the GPU the run may be repeated.
    Recover(Error),
    Ended(Result<RunDone>),
}

/// A run that has room.
pub(super) struct Admitted {
    pub chosen: Chosen,
    pub permit: Permit,
}

impl RunState {
    pub fn begin() -> Self {
        Self::Choose
    }

    pub fn chosen(chosen: Result<Chosen>) -> Self {
        chosen.map_or_else(Self::Recover, Self::Admit)
    }

    /// After the wait for room, `is_usable` says whether the device still has the sides of the plan.
    pub fn admitted(chosen: Chosen, permit: Result<Permit>, is_usable: bool) -> Self {
        match permit {
            Ok(_) if !is_usable => Self::Choose,
            Ok(permit) => Self::Run(Admitted { chosen, permit }),
            Err(error) => Self::Recover(error),
        }
    }

    pub fn ran(done: Result<RunDone>) -> Self {
        done.map_or_else(Self::Recover, Self::Commit)
    }

    /// The plan on trial failed, and the run goes on with the usual one.
    pub fn trial_failed(usual: Chosen) -> Self {
        Self::Admit(usual)
    }

    pub fn committed(done: Result<RunDone>) -> Self {
        match done {
            Ok(done) => Self::Ended(Ok(done)),
            Err(error) => Self::Recover(error),
        }
    }

    pub fn recovered(recovered: Result<()>) -> Self {
        match recovered {
            Ok(()) => Self::Choose,
            Err(error) => Self::Ended(Err(error)),
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choose => f.write_str("choose"),
            Self::Admit(chosen) => write!(f, "admit {}", chosen.prepared.bytes),
            Self::Run(Admitted { chosen, .. }) => write!(f, "run on {}", chosen.prepared.backend()),
            Self::Commit(done) => write!(f, "commit {}", done.kept.len()),
            Self::Recover(error) => write!(f, "recover: {error}"),
            Self::Ended(Ok(_)) => f.write_str("ended"),
            Self::Ended(Err(error)) => write!(f, "failed: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DeviceError;

    #[test]
    fn a_failure_is_recovered_from_or_ends_the_run() {
        let error = || Error::from(DeviceError::NoGpu);
        let failed = RunState::chosen(Err(error()));
        assert!(failed.to_string().starts_with("recover: the device has no GPU"), "{failed}");
        assert_eq!(RunState::recovered(Ok(())).to_string(), RunState::begin().to_string());
        let ended = RunState::recovered(Err(error()));
        assert!(ended.to_string().starts_with("failed: the device has no GPU"), "{ended}");
    }
}
