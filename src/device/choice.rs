//! The choice of a plan: by placement, by prediction, by a decided trial of the graph, or on trial.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Device;
use super::parts::prepared::PreparedGraph;
use super::parts::profile_store::Targets;
use super::parts::trials::{SharedTrial, TrialRun};
use super::planning::PlanRequest;
use crate::cost::{Backend, DeviceProfile, Placement, Residence, Route, RunOutcome, Trial};
use crate::error::{PlanError, Result};
use crate::graph::Fingerprint;
use crate::ops::{Op, Type};
use crate::plan::{ChosenBy, Phase, Pieces, PlacedGraph, Target, choose_route};

/// The plan for the runs of a graph, until something changes.
#[derive(Clone)]
pub(crate) struct PlanChoice {
    pub prepared: Arc<PreparedGraph>,
    shared: Option<Arc<SharedTrial>>,
    /// True if runs may take part in the trial.
    learns: bool,
}

impl PlanChoice {
    /// Returns whether `device` would still choose this plan, with the data of residents at these places.
    pub fn fits(&self, device: &Device, residents: &[Residence]) -> bool {
        let holds = |shared: &Arc<SharedTrial>| {
            device.has_both_sides() && shared.is_usual(self.prepared.asked)
        };
        self.prepared.fits(device, residents) && self.shared.as_ref().is_none_or(holds)
    }

    /// Begins a run's part in a trial, if the graph has an open or decided one.
    pub fn begin_trial_run(&self) -> Option<TrialRun> {
        let routes = &self.prepared.placed.routes;
        let shared = self.shared.as_ref().filter(|_| self.learns && !routes.others.is_empty())?;
        Some(shared.begin(routes))
    }

    /// The routes beside the usual one that later runs may try.
    pub fn untried(&self) -> &[Route] {
        let is_open = self.shared.as_ref().is_some_and(|shared| shared.trial().is_open());
        if self.learns && is_open { &self.prepared.placed.routes.others } else { &[] }
    }
}

impl std::fmt::Debug for PlanChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.prepared.fmt(f)
    }
}

/// A resident is copied to the host if this many runs on the host save at least the time of the copy. A graph that
/// replaces its residents may find the data back on the GPU each time, so that one run must save it.
const RUNS_THAT_PAY: f64 = 8.0;

impl Device {
    /// The plan for the `wanted` graph on the device that `targets` describes: for `route` if one is given, else for the
    /// one that is predicted to be done first, where prediction chooses.
    pub(crate) fn place(
        &self,
        wanted: &PlanRequest<'_>,
        targets: &Targets,
        route: Option<Route>,
    ) -> Result<PlacedGraph, PlanError> {
        let placed = self.place_with(wanted, wanted.residents, targets, route)?;
        if !self.is_bound_by_data(wanted, &placed) || !self.0.profiles.are_known() {
            return Ok(placed);
        }
        let moved = |&residence: &Residence| match residence {
            Residence::Gpu => Residence::Both,
            other => other,
        };
        let residents: SmallVec<[Residence; 8]> = wanted.residents.iter().map(moved).collect();
        let mut near = self.place_with(wanted, &residents, targets, route)?;
        // A run that moves data says nothing about the faster route.
        near.routes.others.clear();
        let runs = if wanted.is_stateful { 1.0 } else { RUNS_THAT_PAY };
        let saved = runs * (placed.seconds() - near.seconds());
        let pays = saved > seconds_to_move(wanted, &near.pieces, targets.profile());
        Ok(if pays { near } else { placed })
    }

    /// The plan for residents whose data lies at `residents`.
    fn place_with(
        &self,
        wanted: &PlanRequest<'_>,
        residents: &[Residence],
        targets: &Targets,
        route: Option<Route>,
    ) -> Result<PlacedGraph, PlanError> {
        let placement = self.placement_now(wanted.placement);
        let room = self.budget().room();
        choose_route(wanted.graph, self.sides(targets), &placement, route, residents, room).map_err(
            |error| match error {
                PlanError::NoSuchSide { side, .. } => {
                    PlanError::NoSuchSide { side, fix: self.how_to_use_the_other_side() }
                }
                error => error,
            },
        )
    }

    /// The cure for a batch that is placed on a side that the device does not use.
    fn how_to_use_the_other_side(&self) -> String {
        let open = match &self.info().fallback {
            Some(why) => return format!("choose another placement: {why}"),
            None if self.is_gpu() => "`Device::auto()`",
            None => "`Device::auto()` or `Device::gpu()`",
        };
        format!("open it with {open}, or choose another placement")
    }

    /// Returns whether the side was not predicted only because the data of a resident is on the GPU alone.
    pub(super) fn is_bound_by_data(&self, wanted: &PlanRequest<'_>, placed: &PlacedGraph) -> bool {
        wanted.residents.iter().any(|residence| residence.is_far())
            && self.placement_now(wanted.placement) == Placement::Auto
            && self.has_both_sides()
            && !placed.was_chosen()
            && !wanted.graph.needs_gpu()
    }

    /// The plan for runs of the `wanted` graph, and the time of planning, unless the cache had it. The graph must be
    /// verified.
    pub(crate) fn prepare(
        &self,
        wanted: &PlanRequest<'_>,
    ) -> Result<(PlanChoice, Option<Duration>)> {
        let graph = wanted.graph.fingerprint();
        let shared = self.shared(wanted, graph);
        let decided = shared.as_ref().and_then(|shared| shared.trial().decided_route());
        let (prepared, planning) = self.cached_or_planned(wanted, graph, decided)?;
        let learns = self.tries(wanted);
        let begins = shared.is_none() && learns && !prepared.placed.routes.others.is_empty();
        let shared = shared.or_else(|| begins.then(|| self.0.profiles.store.trials.of(graph)));
        Ok((PlanChoice { prepared, shared, learns }, planning))
    }

    /// The plan for one of the routes that a [`PlanChoice`] has.
    pub(crate) fn prepare_route(
        &self,
        wanted: &PlanRequest<'_>,
        route: Route,
    ) -> Result<(Arc<PreparedGraph>, Option<Duration>)> {
        self.cached_or_planned(wanted, wanted.graph.fingerprint(), Some(route))
    }

    /// The plan of the next run of the `wanted` graph, and the reason for its side, if there was anything to choose.
    pub(crate) fn preview(
        &self,
        wanted: &PlanRequest<'_>,
        targets: &Targets,
    ) -> Result<(PlacedGraph, Option<ChosenBy>), PlanError> {
        let shared = self.shared(wanted, wanted.graph.fingerprint());
        let trial = shared.map_or_else(Trial::default, |shared| shared.trial());
        let placed = self.place(wanted, targets, trial.decided_route())?;
        let next = trial.next(&placed.routes);
        let is_placed = self.placement_now(wanted.placement) != Placement::Auto;
        if !is_placed && self.tries(wanted) && next != placed.routes.taken {
            return Ok((self.place(wanted, targets, Some(next))?, Some(ChosenBy::Trial)));
        }
        let chosen_by = self.usual_chosen_by(wanted, &placed, &trial);
        Ok((placed, chosen_by))
    }

    /// The reason for the side of a plan by which the `wanted` graph ran, if there was anything to choose.
    pub(crate) fn chosen_by(
        &self,
        wanted: &PlanRequest<'_>,
        ran: &PreparedGraph,
    ) -> Option<ChosenBy> {
        let shared = self.shared(wanted, wanted.graph.fingerprint());
        let trial = shared.map_or_else(Trial::default, |shared| shared.trial());
        match ran.asked {
            Some(route) if trial.decided_route() != Some(route) => Some(ChosenBy::Trial),
            _ => self.usual_chosen_by(wanted, &ran.placed, &trial),
        }
    }

    /// The reason for the side of a plan that is not on trial.
    fn usual_chosen_by(
        &self,
        wanted: &PlanRequest<'_>,
        placed: &PlacedGraph,
        trial: &Trial,
    ) -> Option<ChosenBy> {
        let placement = self.placement_now(wanted.placement);
        if placement != Placement::Auto {
            return Some(ChosenBy::Asked(placement));
        }
        let seen = trial.seen();
        if trial.decided_route() == Some(placed.routes.taken) && !seen.is_empty() {
            Some(ChosenBy::Measured(seen))
        } else if placed.was_chosen() || placed.too_small.is_some() {
            Some(ChosenBy::Times)
        } else if !self.has_both_sides() {
            None
        } else if wanted.graph.needs_gpu() {
            Some(ChosenBy::Kernel)
        } else {
            wanted.residents.iter().any(|residence| residence.is_far()).then_some(ChosenBy::Data)
        }
    }

    /// The targets of the sides that graphs may run on as things stand.
    pub(crate) fn sides<'a>(&self, targets: &'a Targets) -> impl Iterator<Item = &'a Target> {
        let all = [&targets.cpu].into_iter().chain(&targets.gpu);
        all.filter(|target| self.uses(target.backend))
    }

    /// Returns whether both sides of the device can be used now.
    fn has_both_sides(&self) -> bool {
        [Backend::Cpu, Backend::Gpu].into_iter().all(|side| self.uses(side))
    }
}

/// Trials of the device's graphs.
impl Device {
    /// Returns whether runs of the `wanted` graph may try routes that are not predicted to be fastest.
    fn tries(&self, wanted: &PlanRequest<'_>) -> bool {
        !self.0.learns_nothing && self.is_free(wanted) && self.0.profiles.are_known()
    }

    /// Returns whether the graph may run on either side: no placement names one, and no run leaves state behind.
    fn is_free(&self, wanted: &PlanRequest<'_>) -> bool {
        self.has_both_sides() && wanted.placement == Placement::Auto && !wanted.is_stateful
    }

    fn shared(&self, wanted: &PlanRequest<'_>, graph: Fingerprint) -> Option<Arc<SharedTrial>> {
        if self.is_free(wanted) { self.0.profiles.store.trials.find(graph) } else { None }
    }

    /// Ends a run's part in a trial. `is_alone` is asked if the time of the run counts.
    pub(crate) fn tried(
        &self,
        run: &mut TrialRun,
        ran: RunOutcome,
        is_alone: impl FnOnce() -> bool,
    ) {
        if let Some(trial) = run.end(ran, is_alone) {
            self.0.profiles.decided(run.shared.graph, &trial);
        }
    }
}

/// The seconds to copy residents that are on the GPU alone to the host, if the host reads them in this plan.
fn seconds_to_move(wanted: &PlanRequest<'_>, pieces: &Pieces, profile: &DeviceProfile) -> f64 {
    let is_read_by_host = |at: u32| match pieces {
        Pieces::Whole(plan) => plan.backend == Backend::Cpu,
        Pieces::Split(split) => {
            let parts = split.parts.iter().filter(|part| part.phase != Phase::Gpu);
            parts.into_iter().any(|part| part.residents.contains(&at))
        }
    };
    let is_moved =
        |at: u32| wanted.residents.get(at as usize) == Some(&Residence::Gpu) && is_read_by_host(at);
    let seconds = |Type { dtype, shape }: &Type| {
        let bytes = shape.elements() * dtype.size();
        profile.gpu.round_trip + profile.gpu.download.seconds(bytes as f64)
    };
    let residents = wanted.graph.iter().filter_map(|(_, node)| match node.op {
        Op::Resident(at) if is_moved(at) => Some(seconds(&node.ty)),
        _ => None,
    });
    residents.sum()
}
