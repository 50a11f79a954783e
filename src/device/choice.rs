//! Which plan a run goes by: that of the placement, the one that is predicted to be fastest, the one that trials of the
//! graph have found to be, or one that is on trial.

use std::sync::Arc;

use super::contests::{Contest, Said, Turn};
use super::learning::When;
use super::{Device, Prepared, Targets};
use crate::cost::{Backend, Placement, Ran, Residence, Trial, Way};
use crate::error::{PlanError, Result};
use crate::graph::{Fingerprint, Graph};
use crate::plan::{Chooser, Placed};

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
    pub fn turn(&self) -> Option<Turn<'_>> {
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

impl Device {
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
        let is_known = self.0.by_hand || self.targets().profile().measured;
        !self.0.learns_nothing && is_known && self.is_free(wanted)
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
    pub(crate) fn tried(
        &self,
        turn: &mut Turn<'_>,
        ran: Ran,
        is_alone: impl FnOnce() -> bool,
    ) -> bool {
        let said = turn.end(ran, is_alone);
        if let Said::Which(kept) = said {
            self.0.plans.forget_ways(turn.graph(), kept);
            self.keep_profile(When::Soon);
        }
        said != Said::Nothing
    }
}
