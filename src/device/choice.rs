//! Which plan a run goes by: that of the placement, the one that is predicted to be fastest, the one that trials of the
//! graph have found to be, or one that is on trial.

use std::sync::Arc;

use smallvec::SmallVec;

use super::contests::{Contest, Said, Turn};
use super::learning::When;
use super::{Device, Prepared, Targets};
use crate::cost::{Backend, DeviceProfile, Placement, Ran, Residence, Trial, Way};
use crate::error::{PlanError, Result};
use crate::graph::{Fingerprint, Graph};
use crate::ops::{Op, Type};
use crate::plan::{Chooser, Placed, Planned, Stage, place};

/// A graph that is to run.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub graph: &'a Graph,
    pub placement: Placement,
    /// Where the data of each lies.
    pub residents: &'a [Residence],
    /// Whether it replaces data that it reads, so that this lies where it ran.
    pub is_stateful: bool,
}

/// What the runs of a graph go by, until something changes.
#[derive(Clone)]
pub(crate) struct Choice {
    pub prepared: Arc<Prepared>,
    contest: Option<Arc<Contest>>,
    /// Whether its runs may be trials.
    learns: bool,
}

impl Choice {
    /// Whether it is still what `device` would choose where the data of residents lies so.
    pub fn fits(&self, device: &Device, residents: &[Residence]) -> bool {
        let holds = |contest: &Arc<Contest>| {
            device.has_both_sides() && contest.is_usual(self.prepared.asked)
        };
        self.prepared.fits(device, residents) && self.contest.as_ref().is_none_or(holds)
    }

    /// The part of a run that begins now in finding out which way is faster.
    pub fn turn(&self) -> Option<Turn> {
        let ways = &self.prepared.ways;
        let contest = self.contest.as_ref().filter(|_| self.learns && ways.len() > 1)?;
        Some(contest.begin(ways))
    }

    /// The ways that may be tried by runs to come, beside the usual one.
    pub fn untried(&self) -> &[Way] {
        let is_open = self.contest.as_ref().is_some_and(|contest| contest.trial().is_open());
        if self.learns && is_open { &self.prepared.ways[1..] } else { &[] }
    }
}

impl std::fmt::Debug for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.prepared.fmt(f)
    }
}

/// A resident moves to the host if so many runs there save what the move takes. A graph that replaces its residents may
/// find the data back on the GPU each time, so that one run must save it.
const RUNS_THAT_PAY: f64 = 8.0;

impl Device {
    /// The plan for the `wanted` graph on the device that `targets` describes: for `way` if one is given, else for the
    /// way that is predicted to be done first, where prediction chooses.
    pub(crate) fn place(
        &self,
        wanted: &Wanted<'_>,
        targets: &Targets,
        way: Option<Way>,
    ) -> Result<Placed, PlanError> {
        let placed = self.place_beside(wanted, wanted.residents, targets, way)?;
        if !self.is_bound_by_data(wanted, &placed) || !self.knows_its_figures() {
            return Ok(placed);
        }
        let moved = |&residence: &Residence| match residence {
            Residence::Gpu => Residence::Both,
            other => other,
        };
        let residents: SmallVec<[Residence; 8]> = wanted.residents.iter().map(moved).collect();
        let near = self.place_beside(wanted, &residents, targets, way)?;
        let runs = if wanted.is_stateful { 1.0 } else { RUNS_THAT_PAY };
        let saved = runs * (placed.seconds() - near.seconds());
        let pays = saved > seconds_to_move(wanted, &near.planned, targets.profile());
        Ok(if pays { near } else { placed })
    }

    /// The plan for residents whose data lies at `residents`.
    fn place_beside(
        &self,
        wanted: &Wanted<'_>,
        residents: &[Residence],
        targets: &Targets,
        way: Option<Way>,
    ) -> Result<Placed, PlanError> {
        let sides = [&targets.cpu].into_iter().chain(&targets.gpu);
        let sides = sides.filter(|target| self.uses(target.backend));
        let placement = self.placement_now(wanted.placement);
        let room = self.budget().room();
        place(wanted.graph, sides, &placement, way, residents, room).map_err(|error| match error {
            PlanError::NoSuchSide { side, .. } => {
                PlanError::NoSuchSide { side, fix: self.how_to_use_the_other_side() }
            }
            error => error,
        })
    }

    /// What to do where a batch is placed on the side that the device does not use.
    fn how_to_use_the_other_side(&self) -> String {
        let open = match &self.info().fallback {
            Some(why) => return format!("choose another placement: {why}"),
            None if self.is_gpu() => "`Device::auto()`",
            None => "`Device::auto()` or `Device::gpu()`",
        };
        format!("open it with {open}, or choose another placement")
    }

    /// Whether only the place of a resident's data, on the GPU alone, kept prediction from choosing the side.
    pub(super) fn is_bound_by_data(&self, wanted: &Wanted<'_>, placed: &Placed) -> bool {
        wanted.residents.iter().any(|residence| residence.is_far())
            && self.placement_now(wanted.placement) == Placement::Auto
            && self.has_both_sides()
            && !placed.was_chosen()
            && !wanted.graph.needs_gpu()
    }

    /// Whether the profile was measured or given by hand.
    fn knows_its_figures(&self) -> bool {
        self.0.by_hand || self.targets().profile().measured
    }

    /// What runs of what is `wanted` go by, and whether it was planned before. The graph is sound.
    pub(crate) fn prepare(&self, wanted: &Wanted<'_>) -> Result<(Choice, bool)> {
        let graph = wanted.graph.fingerprint();
        let contest = self.contest(wanted, graph);
        let kept = contest.as_ref().and_then(|contest| contest.trial().kept());
        let (prepared, known) = self.prepared(wanted, graph, kept)?;
        let learns = self.tries(wanted);
        let begins = contest.is_none() && learns && prepared.ways.len() > 1;
        let contest = contest.or_else(|| begins.then(|| self.0.reckoning.contests.of(graph)));
        Ok((Choice { prepared, contest, learns }, known))
    }

    /// The plan for one way of those that a [`Choice`] has.
    pub(crate) fn prepare_way(
        &self,
        wanted: &Wanted<'_>,
        way: Way,
    ) -> Result<(Arc<Prepared>, bool)> {
        self.prepared(wanted, wanted.graph.fingerprint(), Some(way))
    }

    /// What the next run of what is `wanted` would go by, and who says so where that is no prediction.
    pub(crate) fn foresee(
        &self,
        wanted: &Wanted<'_>,
        targets: &Targets,
    ) -> Result<(Placed, Option<Chooser>), PlanError> {
        let contest = self.contest(wanted, wanted.graph.fingerprint());
        let trial = contest.map_or_else(Trial::default, |contest| contest.trial());
        let placed = self.place(wanted, targets, trial.kept())?;
        if self.tries(wanted) {
            let next = trial.next(&placed.ways);
            if next != placed.ways[0] {
                return Ok((self.place(wanted, targets, Some(next))?, Some(Chooser::Trial)));
            }
        }
        let seen = trial.seen();
        let is_measured = trial.kept() == Some(placed.ways[0]) && !seen.is_empty();
        Ok((placed, is_measured.then_some(Chooser::Measured(seen))))
    }

    /// Whether runs of what is `wanted` may go ways that are not predicted to be fastest, to find out which is.
    fn tries(&self, wanted: &Wanted<'_>) -> bool {
        !self.0.learns_nothing && self.knows_its_figures() && self.is_free(wanted)
    }

    /// Whether no placement, and nothing that the graph leaves behind, says where it runs.
    fn is_free(&self, wanted: &Wanted<'_>) -> bool {
        self.has_both_sides() && wanted.placement == Placement::Auto && !wanted.is_stateful
    }

    /// Whether graphs may run on either side as things stand.
    fn has_both_sides(&self) -> bool {
        [Backend::Cpu, Backend::Gpu].into_iter().all(|side| self.uses(side))
    }

    fn contest(&self, wanted: &Wanted<'_>, graph: Fingerprint) -> Option<Arc<Contest>> {
        if self.is_free(wanted) { self.0.reckoning.contests.find(graph) } else { None }
    }

    /// Ends a run's part in a trial: it `ran` so, and whether it was alone is told where that is asked. Whether it said
    /// something there.
    pub(crate) fn tried(&self, turn: &mut Turn, ran: Ran, is_alone: impl FnOnce() -> bool) -> bool {
        let said = turn.end(ran, is_alone);
        if let Said::Which(kept) = said {
            self.0.plans.forget_ways(turn.graph(), kept);
            self.keep_profile(When::Soon);
        }
        said != Said::Nothing
    }
}

/// Seconds to bring the residents to the host that the host reads by this plan and that lie on the GPU alone.
fn seconds_to_move(wanted: &Wanted<'_>, planned: &Planned, profile: &DeviceProfile) -> f64 {
    let is_read_by_host = |at: u32| match planned {
        Planned::Whole(plan) => plan.backend == Backend::Cpu,
        Planned::Split(split) => {
            let parts = split.parts.iter().filter(|part| part.stage != Stage::Gpu);
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
