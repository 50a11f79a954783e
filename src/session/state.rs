//! The states of a run, and the steps from one to the next.
//!
//! ```text
//!            ┌─── the plan on trial failed: the usual one ────┐
//!            ├─── the GPU was given up meanwhile ──┐          │
//!            ▼                                     │          │
//! begin ─▶ choose ──────────────────────────────▶ admit ──▶ run ──▶ commit ──▶ ended
//!            ▲                                                                   ▲
//!            └───── recover ◀── any state that fails                             │
//!                      └──────────── nothing can be done ────────────────────────┘
//! ```

use std::fmt;
use std::sync::Arc;

use super::results::RunDone;
use crate::device::{PreparedGraph, TrialRun};
use crate::error::{Error, Result};
use crate::exec::budget::Permit;

/// A run on its way. Small, since it moves from state to state.
pub(super) enum RunState {
    /// A plan is to be chosen, for data where it lies now.
    Choose,
    /// The run waits for room in the device's memory budget.
    Admit(ChosenPlan),
    /// The kernels are to run, for which there is room.
    Run(ChosenPlan, Permit),
    /// The residents are to take the values that the run left.
    Commit(RunDone),
    /// Something failed. After a loss of the GPU the run may be repeated.
    Recover(Error),
    Ended(Result<RunDone>),
}

/// The plan that one run goes by.
pub(super) struct ChosenPlan {
    pub prepared: Arc<PreparedGraph>,
    pub trial: Option<Box<TrialRun>>,
}

impl RunState {
    pub fn chosen(chosen: Result<ChosenPlan>) -> Self {
        chosen.map_or_else(Self::Recover, Self::Admit)
    }

    /// After the wait for room, `is_usable` says whether the device still has the sides of the plan.
    pub fn admitted(chosen: ChosenPlan, permit: Result<Permit>, is_usable: bool) -> Self {
        match permit {
            Ok(_) if !is_usable => Self::Choose,
            Ok(permit) => Self::Run(chosen, permit),
            Err(error) => Self::Recover(error),
        }
    }

    /// A run whose plan was on trial goes on with the usual plan after it failed, as `ended_trial` says.
    pub fn ran(done: Result<RunDone>, ended_trial: bool) -> Self {
        match done {
            Ok(done) => Self::Commit(done),
            Err(_) if ended_trial => Self::Choose,
            Err(error) => Self::Recover(error),
        }
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
            Self::Run(chosen, _) => write!(f, "run on {}", chosen.prepared.backend()),
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
        assert_eq!(RunState::recovered(Ok(())).to_string(), RunState::Choose.to_string());
        let ended = RunState::recovered(Err(error()));
        assert!(ended.to_string().starts_with("failed: the device has no GPU"), "{ended}");
    }
}
