//! The loop that takes a run from state to state.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::report::report;
use super::single_run::SingleRun;
use super::state::{Admitted, RunState};
use super::trial::{Chosen, Lesson};
use super::{LastPlan, RunDone, RunStats};
use crate::base::clock::Stopwatch;
use crate::base::trace::{OFF, Timeline, event, stage};
use crate::cost::{Placement, Residence, Route};
use crate::device::{Counter, Device, PlanChoice, PlanRequest, Prepared};
use crate::error::{Error, Result, RunError};
use crate::exec::budget::{Permit, TooMuch};
use crate::exec::{HostBuffer, deadline};
use crate::record::Recorded;
use crate::residents::{Keep, UpdateOrder, commit, locations};

/// The number of times that a run or a transfer is repeated after losses of the GPU.
const REPEATS: u64 = 3;

/// Collects the data of all uploads, by position, when a run has room for it.
pub(crate) type Collect<'a> = dyn FnMut() -> Result<Vec<Arc<HostBuffer>>> + Send + 'a;

/// The runs of one record, by a batch or by a program.
#[derive(Clone, Copy)]
pub(crate) struct RunLoop<'a> {
    recorded: &'a Recorded,
    plan: &'a LastPlan,
    /// The page on which the times of the run are noted.
    timeline: &'a Timeline,
    /// The time that a run is given.
    pub limit: Option<Duration>,
}

impl Recorded {
    /// The runs of this record as it stands, by `plan` where that still holds.
    pub(crate) fn run_loop<'a>(&'a self, plan: &'a LastPlan) -> RunLoop<'a> {
        self.timed_run_loop(plan, &OFF)
    }

    /// As [`run_loop`](Self::run_loop), whose times go to `timeline`.
    pub(crate) fn timed_run_loop<'a>(
        &'a self,
        plan: &'a LastPlan,
        timeline: &'a Timeline,
    ) -> RunLoop<'a> {
        RunLoop { recorded: self, plan, timeline, limit: None }
    }
}

/// The choice of a plan.
impl RunLoop<'_> {
    /// The planning request, given the residents' locations.
    pub fn wanted<'b>(&'b self, residents: &'b [Residence]) -> PlanRequest<'b> {
        let Recorded { graph, residents: bound, keeps, placement, .. } = self.recorded;
        let is_bound = |keep: &Keep| bound.iter().any(|bound| bound.is_same(&keep.handle));
        let is_stateful = keeps.iter().any(is_bound);
        PlanRequest { graph, placement: *placement, residents, is_stateful }
    }

    /// The choice for data where it lies now: that of the last run, one that the device made before, or a new one.
    pub fn choice(&self, stats: &mut RunStats) -> Result<PlanChoice> {
        let Recorded { device, placement, .. } = self.recorded;
        let residents = self.locations()?;
        let is_named = matches!(placement, Placement::Cpu | Placement::Gpu);
        let bound = if is_named { &[] } else { &residents[..] };
        if let Some(choice) = self.plan.get().filter(|choice| choice.fits(device, bound)) {
            return Ok(choice);
        }
        let choice = self.planned(stats, || device.prepare(&self.wanted(&residents)))?;
        self.plan.set(&choice);
        Ok(choice)
    }

    /// The plan for a route on trial.
    fn on_trial(&self, route: Route, stats: &mut RunStats) -> Result<Arc<Prepared>> {
        let residents = self.locations()?;
        self.planned(stats, || self.recorded.device.prepare_route(&self.wanted(&residents), route))
    }

    fn locations(&self) -> Result<SmallVec<[Residence; 8]>> {
        locations(&self.recorded.graph, &self.recorded.residents)
    }

    /// The result of `plan`, which says too whether it was made before.
    fn planned<R>(
        &self,
        stats: &mut RunStats,
        plan: impl FnOnce() -> Result<(R, bool)>,
    ) -> Result<R> {
        let planning = Stopwatch::started();
        let stage = stage!(self.timeline, "choose", operations = self.recorded.graph.len());
        let (planned, known) = stage.of(plan)?;
        if known {
            stats.plan_hits = 1;
        } else {
            stats.plan_time += planning.total();
        }
        Ok(planned)
    }

    /// Plans the graph and compiles its kernels, for each route that runs may take.
    ///
    /// # Errors
    /// [`RunError::OverBudget`] where no run will ever have room.
    pub async fn compile(&self) -> Result<()> {
        let device = &self.recorded.device;
        let mut stats = RunStats::default();
        loop {
            let choice = self.choice(&mut stats)?;
            self.check_budget(&choice.prepared)?;
            let stage = stage!(self.timeline, "compile");
            let mut compiled = stage.over(pin!(choice.prepared.compile(device))).await;
            for &route in choice.untried() {
                // Other errors of a route end its trial later, when a run tries the route.
                let Ok(prepared) = self.on_trial(route, &mut stats) else { continue };
                let tried = prepared.compile(device).await;
                compiled = compiled.and(tried.or_else(|error| match error.is_loss() {
                    true => Err(error),
                    false => Ok(()),
                }));
            }
            match compiled {
                Ok(()) => return Ok(()),
                Err(error) => {
                    recover_for_repeat(device, error.into(), &mut stats.recoveries).await?;
                }
            }
            self.timeline.forget();
        }
    }

    fn check_budget(&self, prepared: &Prepared) -> Result<()> {
        match self.recorded.device.budget().room() {
            Some(budget) if budget < prepared.bytes => {
                Err(self.over_budget(TooMuch { needs: prepared.bytes, budget }))
            }
            _ => Ok(()),
        }
    }

    fn over_budget(&self, TooMuch { needs, budget }: TooMuch) -> Error {
        RunError::OverBudget { of: self.recorded.first_result(), needs, budget }.into()
    }
}

/// The states of a run.
impl RunLoop<'_> {
    /// Runs in `order` with other runs that update a resident, with the data that `collect` brings once there is room.
    pub async fn run(
        &self,
        order: &UpdateOrder,
        collect: &mut Collect<'_>,
        stats: &mut RunStats,
    ) -> Result<RunDone> {
        let counted = self.recorded.device.counted();
        let run = self.run_through(order, collect, stats);
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
        let _turn = order.take().await;
        let mut uploads = None;
        let mut state = RunState::begin();
        loop {
            event!(TRACE, "state", state = state.to_string());
            state = match state {
                RunState::Choose => RunState::chosen(self.choose(stats)),
                RunState::Admit(chosen) => self.admit(chosen, stats).await,
                RunState::Run(admitted) => {
                    let collected = match uploads.take() {
                        Some(uploads) => Ok(uploads),
                        None => stage!(self.timeline, "collect").of(&mut *collect),
                    };
                    match collected {
                        Ok(data) => self.attempt(admitted, uploads.insert(data), stats).await,
                        Err(error) => RunState::Recover(error),
                    }
                }
                RunState::Commit(done) => RunState::committed(self.commit(done, stats).await),
                RunState::Recover(error) => RunState::recovered(self.recover(error, stats).await),
                RunState::Ended(done) => return done,
            };
        }
    }

    /// From *choose*.
    fn choose(&self, stats: &mut RunStats) -> Result<Chosen> {
        let choice = self.choice(stats)?;
        let on_trial = |route| self.on_trial(route, stats);
        Ok(Chosen::begin(&self.recorded.device, &choice, on_trial))
    }

    /// From *admit*: waits for room in the device's memory budget.
    async fn admit(&self, chosen: Chosen, stats: &mut RunStats) -> RunState {
        let permit = self.permit(chosen.prepared.bytes, stats).await;
        let is_usable = chosen.prepared.is_usable(&self.recorded.device);
        RunState::admitted(chosen, permit, is_usable)
    }

    /// # Errors
    /// [`RunError::OverBudget`], at once, if there will never be room.
    async fn permit(&self, bytes: u64, stats: &mut RunStats) -> Result<Permit> {
        let stage = stage!(self.timeline, "admit", bytes = bytes);
        let budget = self.recorded.device.budget();
        if budget.room().is_none() {
            return Ok(stage.of(Permit::default));
        }
        let waiting = Stopwatch::started();
        let permit = stage.over(pin!(budget.admit(bytes))).await;
        let permit = permit.map_err(|too_much| self.over_budget(too_much))?;
        stats.wait_time = waiting.total();
        Ok(permit)
    }

    /// From *run*: one attempt on the device.
    async fn attempt(
        &self,
        Admitted { mut chosen, permit }: Admitted,
        uploads: &[Arc<HostBuffer>],
        stats: &mut RunStats,
    ) -> RunState {
        let &Self { recorded, timeline, .. } = self;
        let lesson = Lesson::begin(recorded, &chosen.prepared, timeline);
        let run = SingleRun { recorded, prepared: &chosen.prepared, uploads, permit, timeline };
        let ran = stage!(timeline, "run").over(pin!(run.run_plan(stats))).await;
        drop(run);
        lesson.end(&mut chosen, ran.is_ok(), stats);
        match ran {
            Ok((results, kept)) => {
                RunState::ran(Ok(RunDone { prepared: chosen.prepared, results, kept }))
            }
            Err(error) => match chosen.usual_after(&recorded.device, error) {
                Ok(usual) => RunState::trial_failed(usual),
                Err(error) => RunState::ran(Err(error)),
            },
        }
    }

    /// From *commit*: fills the residents.
    async fn commit(&self, mut done: RunDone, stats: &mut RunStats) -> Result<RunDone> {
        let Recorded { device, keeps, .. } = self.recorded;
        if !keeps.is_empty() {
            let stage = stage!(self.timeline, "commit", residents = keeps.len());
            stats.submits += stage.over(pin!(commit(device, keeps, &mut done.kept))).await?;
        }
        report(device, stats, None);
        Ok(done)
    }

    /// From *recover*: the times of an attempt that is repeated are forgotten.
    async fn recover(&self, error: Error, stats: &mut RunStats) -> Result<()> {
        let device = &self.recorded.device;
        report(device, stats, Some(&error));
        let recovering = stage!(self.timeline, "recover", error = error.to_string());
        let mut recovery = Box::pin(recover_for_repeat(device, error, &mut stats.recoveries));
        let recovered = recovering.over(recovery.as_mut()).await;
        let counter = if recovered.is_ok() { Counter::Repeated } else { Counter::Failed };
        device.counters().add(counter, 1);
        if recovered.is_ok() {
            self.timeline.forget();
        }
        recovered
    }
}

/// Returns `Ok` if the call that failed with `error` may be repeated after the device recovered from a loss, and counts
/// the recovery.
pub(crate) async fn recover_for_repeat(
    device: &Device,
    error: Error,
    recoveries: &mut u64,
) -> Result<()> {
    if *recoveries == REPEATS {
        return Err(error);
    }
    device.recover(error).await?;
    *recoveries += 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "gpu")]
    use crate::base::test_device::found;
    use crate::error::DeviceError;

    fn lost() -> Error {
        DeviceError::Lost { reason: "as it should".into() }.into()
    }

    #[tokio::test]
    async fn without_a_gpu_nothing_is_repeated() {
        let mut recoveries = 0;
        assert!(recover_for_repeat(&Device::cpu(), lost(), &mut recoveries).await.is_err());
        assert_eq!(recoveries, 0);
    }

    #[cfg(feature = "gpu")]
    #[tokio::test]
    async fn what_is_lost_again_and_again_is_repeated_three_times() {
        let builder = Device::builder().without_cache().recovery(crate::Recovery::Cpu);
        let Some(device) = found(builder.gpu().await) else { return };
        let mut recoveries = 0;
        for _ in 0..3 {
            recover_for_repeat(&device, lost(), &mut recoveries).await.unwrap();
        }
        let end = recover_for_repeat(&device, lost(), &mut recoveries).await.unwrap_err();
        assert!(matches!(end, Error::Device(DeviceError::Lost { .. })), "{end}");
        let other = DeviceError::broken("no loss").into();
        assert!(
            recover_for_repeat(&device, other, &mut 0).await.is_err(),
            "what is no loss is not repeated"
        );
    }
}
