//! The plans of runs: chosen, compiled, explained, and checked against the budget.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::RunStats;
use super::repeat::repeated;
use super::session::{Session, fork_guard};
use crate::base::trace::stage;
use crate::cost::{Placement, Residence, Route};
use crate::device::{PlanChoice, PlanRequest, PreparedGraph, Targets};
use crate::error::{DeviceError, Error, Result, RunError};
use crate::exec::budget::TooMuch;
use crate::ops::Op;
use crate::plan::{ChosenBy, Explanation, PlacedGraph};
use crate::record::Record;
use crate::residents::{Keep, locations};

/// `error` of `prepared` with the place of a kernel of the user's own in `recorded`. The plans may have been made for an equal
/// graph that was recorded elsewhere.
pub(super) fn at_own_place(recorded: &Record, prepared: &PreparedGraph, mut error: Error) -> Error {
    if let Error::Device(DeviceError::Kernel { place, .. } | DeviceError::Panicked { place, .. }) =
        &mut error
        && let Some(own) = prepared.placed.place_in(&recorded.graph, place)
    {
        *place = own.to_string();
    }
    error
}

impl Session<'_> {
    /// The planning request, given the residents' locations.
    pub fn plan_request<'b>(&'b self, residents: &'b [Residence]) -> PlanRequest<'b> {
        let Record { graph, residents: bound, keeps, placement, .. } = self.recorded;
        let is_bound = |keep: &Keep| bound.iter().any(|bound| bound.is_same(&keep.handle));
        let is_stateful = keeps.iter().any(is_bound);
        PlanRequest { graph, placement: *placement, residents, is_stateful }
    }

    /// The choice for data where it lies now: that of the last run, one that the device made before, or a new one.
    pub fn choice(&self, stats: &mut RunStats) -> Result<PlanChoice> {
        let Record { device, placement, .. } = self.recorded;
        let residents = self.locations()?;
        let is_named = matches!(placement, Placement::Cpu | Placement::Gpu);
        let bound = if is_named { &[] } else { &residents[..] };
        self.last_or_new_choice(
            |choice| choice.fits(device, bound),
            || self.count_planning(stats, || device.prepare(&self.plan_request(&residents))),
        )
    }

    /// The plan for a route on trial.
    pub(super) fn on_trial(
        &self,
        route: Route,
        stats: &mut RunStats,
    ) -> Result<Arc<PreparedGraph>> {
        let residents = self.locations()?;
        self.count_planning(stats, || {
            self.recorded.device.prepare_route(&self.plan_request(&residents), route)
        })
    }

    fn locations(&self) -> Result<SmallVec<[Residence; 8]>> {
        locations(&self.recorded.graph, &self.recorded.residents)
    }

    /// Calls `plan`, and records in `stats` how long planning took, or that the plan came from the cache.
    fn count_planning<R>(
        &self,
        stats: &mut RunStats,
        plan: impl FnOnce() -> Result<(R, Option<Duration>)>,
    ) -> Result<R> {
        let stage = stage!(self.timeline, "choose", operations = self.recorded.graph.len());
        let (planned, planning) = stage.of(plan)?;
        match planning {
            Some(time) => stats.plan_time += time,
            None => stats.plan_hits = 1,
        }
        Ok(planned)
    }

    /// Plans the graph and compiles its kernels, for each route that runs may take. Returns true if the caller must now
    /// run the program on zeros. One caller gets true for each short plan of the cores.
    ///
    /// # Errors
    /// [`RunError::OverBudget`] where no run will ever have room.
    pub async fn compile(&self) -> Result<bool> {
        repeated!(&self.recorded.device, self.compile_once())
    }

    async fn compile_once(&self) -> Result<bool> {
        let _guard = fork_guard()?;
        let (device, mut stats) = (&self.recorded.device, RunStats::default());
        let choice = self.choice(&mut stats)?;
        self.check_budget(&choice.prepared)?;
        let compiled = choice.prepared.compile(device).await;
        compiled.map_err(|e| at_own_place(self.recorded, &choice.prepared, e.into()))?;
        self.reserve(&choice.prepared).await;
        for &route in choice.untried() {
            // Other errors of a route than a loss end its trial later, when a run tries the route.
            let Ok(prepared) = self.on_trial(route, &mut stats) else { continue };
            if let Err(error) = prepared.compile(device).await
                && error.is_loss()
            {
                return Err(error.into());
            }
            self.reserve(&prepared).await;
        }
        Ok(self.begins_runs_on_zeros(&choice.prepared))
    }

    /// The plan of the next run, with its reasons. It is made anew: a plan that was made before may be of a batch that
    /// was recorded at other places.
    pub fn explanation(&self) -> Result<Explanation> {
        let _guard = fork_guard()?;
        let device = &self.recorded.device;
        let (residents, targets) = (self.locations()?, device.targets());
        let (placed, chosen_by) = device.preview(&self.plan_request(&residents), &targets)?;
        Ok(self.explanation_from(placed.into(), chosen_by, &targets, &residents))
    }

    /// The plan by which a run went, with its reasons as far as they still hold.
    pub fn explanation_of(&self, ran: &PreparedGraph) -> Explanation {
        let device = &self.recorded.device;
        let residents = self.locations().unwrap_or_default();
        let chosen_by = device.chosen_by(&self.plan_request(&residents), ran);
        let placed = Arc::new(ran.placed.at_places_of(&self.recorded.graph));
        self.explanation_from(placed, chosen_by, &device.targets(), &residents)
    }

    fn explanation_from(
        &self,
        placed: Arc<PlacedGraph>,
        chosen_by: Option<ChosenBy>,
        targets: &Targets,
        residents: &[Residence],
    ) -> Explanation {
        let Record { device, graph, names, .. } = self.recorded;
        let (sides, mut names) = (device.sides(targets), names.by_node());
        for (id, node) in graph.iter() {
            if let Op::Resident(at) = node.op
                && let Some(name) = self.recorded.residents[at as usize].origin().name
            {
                names.entry(id).or_insert(name);
            }
        }
        Explanation::new(placed, graph, names, sides, chosen_by, residents)
    }

    fn check_budget(&self, prepared: &PreparedGraph) -> Result<()> {
        match self.recorded.device.budget().room() {
            Some(budget) if budget < prepared.bytes => {
                Err(self.over_budget(TooMuch { needs: prepared.bytes, budget }))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn over_budget(&self, TooMuch { needs, budget }: TooMuch) -> Error {
        RunError::OverBudget { of: self.recorded.first_result(), needs, budget }.into()
    }
}
