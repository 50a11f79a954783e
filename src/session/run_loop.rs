//! The loop that takes a run from state to state.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use super::attempt::Attempt;
use super::plans::at_own_place;
use super::repeat::recover_for_repeat;
use super::session::{Session, fork_guard};
use super::state::{ChosenPlan, RunState};
use super::stats::report;
use super::{RunDone, RunStats};
use crate::base::clock::{Stopwatch, nanoseconds};
use crate::base::future::yield_now;
use crate::base::trace::{event, stage};
use crate::cost::{Backend, RunOutcome};
use crate::device::Counter;
use crate::error::{Error, Result, RunError};
use crate::exec::budget::Permit;
use crate::exec::deadline;
use crate::record::{Record, Uploads};
use crate::residents::{Handle, KeptValues, UpdateOrder, commit};

/// Collects the data of all uploads, by position, when a run has room for it.
pub(crate) type Collect<'a> = dyn FnMut() -> Result<Uploads> + Send + 'a;

/// The states of a run.
impl Session<'_> {
    /// Runs in `order` with other runs that update a resident, with the data that `collect` brings once there is room.
    pub async fn run(
        &self,
        order: &UpdateOrder,
        collect: &mut Collect<'_>,
        stats: &mut RunStats,
    ) -> Result<RunDone> {
        let _guard = fork_guard()?;
        let counted = self.recorded.device.counted(!self.is_on_zeros);
        // Pinned here: each future that takes another by value has room for it twice.
        let run = pin!(self.run_through(order, collect, stats));
        match deadline::within(self.limit, run).await {
            Ok(done) => {
                counted.end();
                done
            }
            Err(limit) => {
                counted.end_late();
                Err(RunError::Deadline { of: self.recorded.first_result(), limit }.into())
            }
        }
    }

    async fn run_through(
        &self,
        order: &UpdateOrder,
        collect: &mut Collect<'_>,
        stats: &mut RunStats,
    ) -> Result<RunDone> {
        let _updating = order.take().await;
        let mut uploads = None;
        let mut state = RunState::Choose;
        loop {
            event!(TRACE, "state", state = state.to_string());
            state = match state {
                RunState::Choose => RunState::chosen(self.choose(stats)),
                RunState::Admit(chosen) => {
                    let permit = self.permit(chosen.prepared.bytes, stats).await;
                    let is_usable = chosen.prepared.is_usable(&self.recorded.device);
                    RunState::admitted(chosen, permit, is_usable)
                }
                RunState::Run(chosen, permit) => {
                    self.attempt(chosen, permit, &mut uploads, collect, stats).await
                }
                RunState::Commit(mut done) => {
                    let committed = self.commit(&mut done.kept, stats).await;
                    RunState::committed(committed.map(|()| done))
                }
                RunState::Recover(error) => {
                    RunState::recovered(Box::pin(self.recover(error, stats)).await)
                }
                RunState::Ended(done) => return done,
            };
        }
    }

    /// From *choose*. A route on trial whose plan cannot be made ends its trial.
    fn choose(&self, stats: &mut RunStats) -> Result<ChosenPlan> {
        let choice = self.choice(stats)?;
        let trial = if self.is_on_zeros { None } else { choice.begin_trial_run().map(Box::new) };
        let prepared = choice.prepared;
        let Some(mut trial) = trial else { return Ok(ChosenPlan { prepared, trial: None }) };
        if !trial.is_away {
            return Ok(ChosenPlan { prepared, trial: Some(trial) });
        }
        match self.on_trial(trial.route, stats) {
            Ok(prepared) => Ok(ChosenPlan { prepared, trial: Some(trial) }),
            Err(_) => {
                self.recorded.device.tried(&mut trial, RunOutcome::Failed, || true);
                Ok(ChosenPlan { prepared, trial: None })
            }
        }
    }

    /// From *admit*: waits for room in the device's memory budget.
    ///
    /// # Errors
    /// [`RunError::OverBudget`], at once, if there will never be room.
    async fn permit(&self, bytes: u64, stats: &mut RunStats) -> Result<Permit> {
        let stage = stage!(self.timeline, "admit", bytes = bytes);
        let budget = self.recorded.device.budget();
        // A run on zeros takes at most 4 MiB, outside of the budget.
        if budget.room().is_none() || self.is_on_zeros {
            return Ok(stage.of(Permit::default));
        }
        let waiting = Stopwatch::started();
        let permit = stage.over(pin!(budget.admit(bytes))).await;
        let permit = permit.map_err(|too_much| self.over_budget(too_much))?;
        stats.wait_time = waiting.total();
        Ok(permit)
    }

    /// From *run*: one attempt on the device, which reports its time to the run's trial. The first one collects the data of
    /// the uploads.
    async fn attempt(
        &self,
        chosen: ChosenPlan,
        permit: Permit,
        uploads: &mut Option<Uploads>,
        collect: &mut Collect<'_>,
        stats: &mut RunStats,
    ) -> RunState {
        let &Self { recorded, timeline, .. } = self;
        let Record { device, residents, .. } = recorded;
        let ChosenPlan { prepared, mut trial } = chosen;
        let uploads = match uploads {
            Some(uploads) => uploads,
            None => match stage!(timeline, "collect").of(collect) {
                Ok(collected) => uploads.insert(collected),
                Err(error) => return RunState::Recover(error),
            },
        };
        let busy = device.busy();
        // The time to bring a resident says nothing of the steps; nor does a run whose kernels are timed.
        let is_on_side = |handle: &Handle| handle.is_on(prepared.backend());
        let may_teach = trial.is_some()
            && prepared.placed.was_chosen()
            && !timeline.is_recording()
            && residents.iter().all(is_on_side);
        let attempt = Attempt { recorded, prepared: &prepared, uploads, permit, timeline };
        let stage = stage!(timeline, "run");
        let ran = match stage.part(|| attempt.run_inline(stats)) {
            Some(ran) => {
                drop(stage);
                ran
            }
            // Other runs leave no cores to this one, which nobody awaits.
            None if self.is_on_zeros => return RunState::Ended(Err(RunError::Cancelled.into())),
            // Boxed: a future of some KiB, each move of which would take as long as a short run does beside its work.
            None => stage.over(Box::pin(attempt.run(stats)).as_mut()).await,
        };
        drop(attempt);
        let mut ended_trial = false;
        if let Some(trial) = &mut trial {
            let is_warm = may_teach && stats.pipelines_compiled + stats.pool_misses == 0;
            let outcome = match &ran {
                Ok(_) if is_warm => Some(RunOutcome::Took(nanoseconds(stats.run_time))),
                Ok(_) => Some(RunOutcome::Cold),
                Err(Error::Device(error)) if trial.is_away && !error.is_loss() => {
                    ended_trial = true;
                    Some(RunOutcome::Failed)
                }
                Err(_) => None,
            };
            if let Some(outcome) = outcome {
                device.tried(trial, outcome, || busy.is_alone());
            }
        }
        drop(busy);
        if (prepared.placed.was_chosen() || prepared.is_bound_by_data) && !self.is_on_zeros {
            device.measure_some_time();
        }
        if stats.backend == Some(Backend::Cpu) && has_had_its_slice(stats.run_time) {
            yield_now().await;
        }
        let ran = match ran {
            Ok((results, kept)) => Ok(RunDone { prepared, results, kept }),
            Err(error) => Err(at_own_place(recorded, &prepared, error)),
        };
        RunState::ran(ran, ended_trial)
    }

    /// From *commit*: fills the residents.
    async fn commit(&self, kept: &mut KeptValues, stats: &mut RunStats) -> Result<()> {
        let Record { device, keeps, .. } = self.recorded;
        if self.is_on_zeros {
            return Ok(());
        }
        if !keeps.is_empty() {
            let stage = stage!(self.timeline, "commit", residents = keeps.len());
            stats.submits += stage.over(pin!(commit(device, keeps, kept))).await?;
        }
        report(device, stats, None);
        Ok(())
    }

    /// From *recover*: the times of an attempt that is repeated are forgotten.
    async fn recover(&self, error: Error, stats: &mut RunStats) -> Result<()> {
        let device = &self.recorded.device;
        if self.is_on_zeros {
            return Err(error);
        }
        report(device, stats, Some(&error));
        let recovering = stage!(self.timeline, "recover", error = error.to_string());
        let is_fault = matches!(error, Error::Fault(_));
        let recovery = recover_for_repeat(device, error, &mut stats.recoveries);
        let recovered = recovering.over(pin!(recovery)).await;
        let counter = if recovered.is_ok() { Counter::Repeated } else { Counter::Failed };
        device.counters().add(counter, 1);
        device.counters().add(Counter::Faults, u64::from(is_fault));
        if recovered.is_ok() {
            self.timeline.forget();
        }
        recovered
    }
}

/// Returns whether consecutive runs, the last taking `time`, have occupied this thread long enough that it should
/// yield.
fn has_had_its_slice(time: Duration) -> bool {
    const SLICE: Duration = Duration::from_micros(100);
    thread_local!(static TAKEN: Cell<Duration> = const { Cell::new(Duration::ZERO) });
    let taken = TAKEN.get() + time;
    TAKEN.set(if taken < SLICE { taken } else { Duration::ZERO });
    taken >= SLICE
}
