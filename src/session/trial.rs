//! The part of a run in trials of its graph, and the lessons that its time teaches.

use std::sync::Arc;

use super::RunStats;
use crate::base::clock::nanoseconds;
use crate::base::trace::Timeline;
use crate::cost::{Route, RunOutcome};
use crate::device::{Busy, Device, PlanChoice, Prepared, TrialRun};
use crate::error::{Error, Result};
use crate::record::Recorded;

/// The plan that one run goes by.
pub(super) struct Chosen {
    pub prepared: Arc<Prepared>,
    /// The plan of runs that are on no trial.
    usual: Arc<Prepared>,
    /// The run's part in a trial, if it has one.
    turn: Option<TrialRun>,
}

impl Chosen {
    /// Begins a run by `choice`: with the usual plan, or with the one that `plan_of` makes for a route on trial. A route
    /// whose plan cannot be made ends its trial.
    pub fn begin(
        device: &Device,
        choice: &PlanChoice,
        plan_of: impl FnOnce(Route) -> Result<Arc<Prepared>>,
    ) -> Self {
        let usual = Arc::clone(&choice.prepared);
        let mut turn = choice.turn();
        let mut prepared = Arc::clone(&usual);
        if let Some(mut away) = turn.take_if(|turn| turn.is_away) {
            match plan_of(away.route) {
                Ok(on_trial) => (turn, prepared) = (Some(away), on_trial),
                Err(_) => device.tried(&mut away, RunOutcome::Failed, || true),
            }
        }
        Self { prepared, usual, turn }
    }

    /// The usual plan, to go on with after `error` ended the trial of this one.
    ///
    /// # Errors
    /// `error`, where this is the usual plan already, or another plan would not help.
    pub fn usual_after(self, device: &Device, error: Error) -> Result<Self, Error> {
        match (error, self.turn) {
            (Error::Device(error), Some(mut turn)) if turn.is_away && !error.is_loss() => {
                device.tried(&mut turn, RunOutcome::Failed, || true);
                let usual = self.usual;
                Ok(Self { prepared: Arc::clone(&usual), usual, turn: None })
            }
            (error, _) => Err(error),
        }
    }
}

/// A run under way, whose time may teach the device.
pub(super) struct Lesson<'a> {
    device: &'a Device,
    busy: Busy<'a>,
    may_teach: bool,
}

impl<'a> Lesson<'a> {
    pub fn begin(recorded: &'a Recorded, prepared: &Prepared, timeline: &Timeline) -> Self {
        let Recorded { device, residents, .. } = recorded;
        let busy = device.busy();
        // The time to bring a resident says nothing of the steps; nor does a run whose kernels are timed.
        let all_there = || residents.iter().all(|handle| handle.is_on(prepared.backend()));
        let may_teach = prepared.was_chosen && !timeline.is_kept() && all_there();
        Self { device, busy, may_teach }
    }

    /// Ends a run that `is_done` or failed: reports to the trial, and has an unmeasured device
    /// measured some time.
    pub fn end(self, chosen: &mut Chosen, is_done: bool, stats: &RunStats) {
        let Self { device, busy, may_teach } = self;
        let Chosen { prepared, turn, .. } = chosen;
        let is_warm = may_teach && stats.pipelines_compiled == 0;
        if is_done {
            let ran = if is_warm && stats.pool_misses == 0 {
                RunOutcome::Took(nanoseconds(stats.run_time))
            } else {
                RunOutcome::Cold
            };
            if let Some(turn) = turn {
                device.tried(turn, ran, || busy.is_alone());
            }
        }
        drop(busy);
        if prepared.was_chosen || prepared.is_bound_by_data {
            device.measure_some_time();
        }
    }
}
