//! A recorded graph on its way through a run: what it waits for, its plan, and what follows when the device is lost.

use std::pin::pin;
use std::sync::Arc;

use smallvec::SmallVec;

use super::launch::{Results, Run, admit, tell};
use super::recorded::Recorded;
use super::residence::{self, Left};
use super::state::{Kept, Turns};
use super::stats::RunStats;
use super::store::store;
use crate::base::clock::Stopwatch;
use crate::base::sync::Mutex;
use crate::base::trace::{OFF, Timeline, stage};
use crate::cost::{Placement, Ran, Residence, Way};
use crate::device::{Choice, Counter, Device, Prepared, Turn, Wanted};
use crate::error::{DeviceError, Error, Result};
use crate::exec::HostBuffer;
use crate::exec::budget::Permit;

/// How often a run or a transfer is repeated whose device is lost.
const REPEATS: u64 = 3;

/// What is run: by a batch or a program.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    recorded: &'a Recorded,
    plan: &'a PlanCell,
    /// Where the times of the run go.
    timeline: &'a Timeline,
}

/// What a run made.
pub(super) struct Done {
    pub prepared: Arc<Prepared>,
    pub results: Results,
    /// In the order of the graph's keeps, whose residents hold it already; nothing for those of which a part was
    /// replaced.
    pub kept: Left,
}

/// The plan that was used last.
#[derive(Debug, Default)]
pub(super) struct PlanCell(Mutex<Option<Choice>>);

impl PlanCell {
    pub fn get(&self) -> Option<Choice> {
        self.0.lock().clone()
    }

    fn set(&self, choice: &Choice) {
        *self.0.lock() = Some(choice.clone());
    }
}

impl Recorded {
    /// A run of it as it stands, or the way there, by `plan` where that still holds.
    pub(super) fn attempt<'a>(&'a self, plan: &'a PlanCell) -> Attempt<'a> {
        self.timed_attempt(plan, &OFF)
    }

    /// As [`attempt`](Self::attempt), whose times go to `timeline`.
    pub(super) fn timed_attempt<'a>(
        &'a self,
        plan: &'a PlanCell,
        timeline: &'a Timeline,
    ) -> Attempt<'a> {
        Attempt { recorded: self, plan, timeline }
    }
}

impl Attempt<'_> {
    /// It, where the data of its residents lies so.
    pub fn wanted<'b>(&'b self, residents: &'b [Residence]) -> Wanted<'b> {
        let Recorded { graph, residents: bound, kept, placement, .. } = self.recorded;
        let is_bound = |kept: &Kept| bound.iter().any(|bound| bound.is_same(&kept.handle));
        let is_stateful = kept.iter().any(is_bound);
        Wanted { graph, placement: *placement, residents, is_stateful }
    }

    /// What runs go by, for data where it lies now: the plan that was used last, one that the device made before, or a
    /// new one.
    pub fn choice(&self, stats: &mut RunStats) -> Result<Choice> {
        let Recorded { device, placement, .. } = self.recorded;
        let residents = self.residences()?;
        let named = matches!(placement, Placement::Cpu | Placement::Gpu);
        let fits = |choice: &Choice| {
            let bound = if named { &[] } else { &residents[..] };
            choice.fits(device, bound)
        };
        if let Some(choice) = self.plan.get().filter(fits) {
            return Ok(choice);
        }
        let choice = self.planned(stats, || device.prepare(&self.wanted(&residents)))?;
        self.plan.set(&choice);
        Ok(choice)
    }

    /// The plan for a way that is tried.
    fn on_trial(&self, way: Way, stats: &mut RunStats) -> Result<Arc<Prepared>> {
        let residents = self.residences()?;
        self.planned(stats, || self.recorded.device.prepare_way(&self.wanted(&residents), way))
    }

    /// Where the data of its residents lies.
    fn residences(&self) -> Result<SmallVec<[Residence; 8]>> {
        residence::residences(&self.recorded.graph, &self.recorded.residents)
    }

    /// The turn of a run with the plan for its way; with none if that cannot be made, which ends the trial, as `usual`.
    fn try_away<'t>(
        &self,
        mut turn: Turn<'t>,
        usual: Arc<Prepared>,
        stats: &mut RunStats,
    ) -> (Option<Turn<'t>>, Arc<Prepared>) {
        if let Ok(prepared) = self.on_trial(turn.way, stats) {
            return (Some(turn), prepared);
        }
        self.recorded.device.tried(&mut turn, Ran::Failed, || true);
        (None, usual)
    }

    /// What `plan` makes, or finds made before.
    fn planned<R>(
        &self,
        stats: &mut RunStats,
        plan: impl FnOnce() -> Result<(R, bool)>,
    ) -> Result<R> {
        let planning = Stopwatch::started();
        let stage = stage!(self.timeline, "plan", operations = self.recorded.graph.len());
        let (planned, known) = stage.of(plan)?;
        if known {
            stats.plan_hits = 1;
        } else {
            stats.plan_time += planning.total();
        }
        Ok(planned)
    }

    /// Plans the graph and compiles its kernels, for each way that runs may go.
    pub async fn compile(&self) -> Result<()> {
        let device = &self.recorded.device;
        let mut stats = RunStats::default();
        loop {
            let choice = self.choice(&mut stats)?;
            let stage = stage!(self.timeline, "compile");
            let mut compiled = stage.over(pin!(choice.prepared.compile(device))).await;
            for &way in choice.untried() {
                // What else is wrong with a way ends its trial, when a run would go it.
                let Ok(prepared) = self.on_trial(way, &mut stats) else { continue };
                let tried = prepared.compile(device).await;
                compiled = compiled
                    .and(tried.or_else(|error| if is_lost(&error) { Err(error) } else { Ok(()) }));
            }
            match compiled {
                Ok(()) => return Ok(()),
                Err(error) => self.recover(error.into(), &mut stats).await?,
            }
        }
    }

    /// Runs when it is its turn and there is room, with the data that `uploads` then brings.
    pub async fn run(
        &self,
        turns: &Turns,
        uploads: impl FnOnce() -> Result<Vec<Arc<HostBuffer>>>,
        stats: &mut RunStats,
    ) -> Result<Done> {
        let device = &self.recorded.device;
        let counted = device.counted();
        let _turns = turns.take().await;
        let (mut uploads, mut data) = (Some(uploads), Vec::new());
        let done = loop {
            let tried = self.once(&mut uploads, &mut data, stats).await;
            tell(device, stats, tried.as_ref().err());
            let Err(error) = tried else { break tried };
            let recovered = self.recover(error, stats).await;
            let counter = if recovered.is_ok() { Counter::Repeated } else { Counter::Failed };
            device.counters().add(counter, 1);
            if let Err(error) = recovered {
                break Err(error);
            }
        };
        counted.end();
        done
    }

    /// Runs when there is room. The first to have it takes what `uploads` bring for `data`.
    async fn once(
        &self,
        uploads: &mut Option<impl FnOnce() -> Result<Vec<Arc<HostBuffer>>>>,
        data: &mut Vec<Arc<HostBuffer>>,
        stats: &mut RunStats,
    ) -> Result<Done> {
        let &Self { recorded, timeline, .. } = self;
        let choice = self.choice(stats)?;
        let mut turn = choice.turn();
        let mut prepared = Arc::clone(&choice.prepared);
        if let Some(away) = turn.take_if(|turn| turn.is_away) {
            (turn, prepared) = self.try_away(away, prepared, stats);
        }
        let permit = admit(recorded, &prepared, timeline, stats).await?;
        if let Some(uploads) = uploads.take() {
            *data = stage!(timeline, "gather").of(uploads)?;
        }
        let done = self.launch(prepared, data, permit, turn.as_mut(), stats).await;
        match (done, turn) {
            (Err(Error::Device(error)), Some(mut turn)) if turn.is_away && !is_lost(&error) => {
                recorded.device.tried(&mut turn, Ran::Failed, || true);
                let prepared = Arc::clone(&choice.prepared);
                let permit = admit(recorded, &prepared, timeline, stats).await?;
                self.launch(prepared, data, permit, None, stats).await
            }
            (done, _) => done,
        }
    }

    /// Runs once, and fills the residents.
    async fn launch(
        &self,
        prepared: Arc<Prepared>,
        uploads: &[Arc<HostBuffer>],
        permit: Permit,
        turn: Option<&mut Turn<'_>>,
        stats: &mut RunStats,
    ) -> Result<Done> {
        let &Self { recorded, timeline, .. } = self;
        let run = Run { recorded, prepared: &prepared, uploads, permit, timeline };
        let finished = run.finish(turn, stats).await;
        drop(run);
        let (results, mut kept) = finished?;
        #[cfg(feature = "gpu")]
        if prepared.saved_near > 0.0 {
            let Recorded { device, residents, .. } = recorded;
            residence::note_saving(device, residents, prepared.saved_near);
        }
        stats.submits += store(&recorded.device, &recorded.kept, &mut kept).await?;
        Ok(Done { prepared, results, kept })
    }

    /// As [`recover`]; what the timeline has of the run that failed is forgotten.
    async fn recover(&self, error: Error, stats: &mut RunStats) -> Result<()> {
        Box::pin(recover(&self.recorded.device, error, &mut stats.recoveries)).await?;
        self.timeline.forget();
        Ok(())
    }
}

fn is_lost(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Lost { .. })
}

/// Returns if what failed with `error` may be repeated, now that something was done about it, and counts that.
pub(super) async fn recover(device: &Device, error: Error, recoveries: &mut u64) -> Result<()> {
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

    fn lost() -> Error {
        DeviceError::Lost { reason: "as it should".into() }.into()
    }

    #[tokio::test]
    async fn without_a_gpu_nothing_is_repeated() {
        let mut recoveries = 0;
        assert!(recover(&Device::cpu(), lost(), &mut recoveries).await.is_err());
        assert_eq!(recoveries, 0);
    }

    #[cfg(feature = "gpu")]
    #[tokio::test]
    async fn what_is_lost_again_and_again_is_repeated_three_times() {
        let builder = Device::builder().without_cache().recovery(crate::Recovery::Cpu);
        let Some(device) = found(builder.gpu().await) else { return };
        let mut recoveries = 0;
        for _ in 0..3 {
            recover(&device, lost(), &mut recoveries).await.unwrap();
        }
        let end = recover(&device, lost(), &mut recoveries).await.unwrap_err();
        assert!(matches!(end, Error::Device(DeviceError::Lost { .. })), "{end}");
        let other = DeviceError::broken("no loss").into();
        assert!(recover(&device, other, &mut 0).await.is_err(), "what is no loss is not repeated");
    }
}
