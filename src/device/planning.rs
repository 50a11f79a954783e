//! Plans from the cache, or made and then kept there.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Device;
use super::parts::plan_cache::PlanKey;
use super::parts::prepared::PreparedGraph;
use crate::base::clock::Stopwatch;
use crate::cost::{Placement, Residence, Route};
use crate::error::Result;
use crate::graph::{Fingerprint, Graph};

/// The graph of a run, with all that decides its plan besides the device.
#[derive(Clone, Copy)]
pub(crate) struct PlanRequest<'a> {
    pub graph: &'a Graph,
    pub placement: Placement,
    pub residents: &'a [Residence],
    /// True if a run replaces data that it reads, which then lies where the run was.
    pub is_stateful: bool,
}

impl Device {
    /// The plan for a graph with this fingerprint, and the time of planning, unless it was made before: for `route`, or
    /// for the one that placement or prediction chooses.
    pub(super) fn cached_or_planned(
        &self,
        wanted: &PlanRequest<'_>,
        graph: Fingerprint,
        route: Option<Route>,
    ) -> Result<(Arc<PreparedGraph>, Option<Duration>)> {
        let mut key = PlanKey {
            graph,
            placement: self.placement_now(wanted.placement),
            route,
            residents: SmallVec::from_slice(wanted.residents),
            is_stateful: wanted.is_stateful,
            revision: self.0.profiles.store.revision(),
        };
        if let Some(prepared) = self.0.profiles.plans.find(&key) {
            return Ok((prepared, None));
        }
        let planning = Stopwatch::started();
        debug_assert_eq!(wanted.graph.verify(), Ok(()));
        let targets = self.targets();
        key.revision = targets.revision;
        let placed = self.place(wanted, &targets, route)?;
        let is_bound_by_data = self.is_bound_by_data(wanted, &placed);
        let prepared = PreparedGraph::new(wanted.graph, placed, route, is_bound_by_data, &targets);
        let prepared = Arc::new(prepared);
        self.0.profiles.plans.insert(key, Arc::clone(&prepared));
        Ok((prepared, Some(planning.total())))
    }
}
