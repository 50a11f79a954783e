//! The cache of plans: a batch that is recorded anew with the same structure is not planned again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::{Device, PlanRequest, Prepared};
use crate::base::lru::Lru;
use crate::base::sync::Mutex;
use crate::codegen::{Dispatch, lower};
use crate::cost::{Placement, Residence, Route};
use crate::error::Result;
use crate::graph::Fingerprint;
use crate::plan::{Plan, Step};

const PLANS: usize = 1024;

/// Everything that a plan depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    graph: Fingerprint,
    placement: Placement,
    route: Option<Route>,
    residents: SmallVec<[Residence; 8]>,
    is_stateful: bool,
    revision: u64,
}

pub(super) struct PlanCache {
    plans: Mutex<Lru<Key, Arc<Prepared>>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Default for PlanCache {
    fn default() -> Self {
        Self {
            plans: Mutex::new(Lru::new(PLANS)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }
}

impl PlanCache {
    fn find(&self, key: &Key) -> Option<Arc<Prepared>> {
        let found = self.plans.lock().get(key).cloned();
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    pub fn forget(&self) {
        let _gone = self.plans.lock().extract(|_| true);
    }

    /// Forgets the plans of `graph` for other routes than the `kept` one, unless a placement names the side.
    pub fn forget_routes(&self, graph: Fingerprint, kept: Option<Route>) {
        let goes =
            |key: &Key| key.graph == graph && key.placement == Placement::Auto && key.route != kept;
        let _gone = self.plans.lock().extract(goes);
    }

    /// Hits, misses, and plans in the cache.
    pub fn counts(&self) -> (u64, u64, usize) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let plans = self.plans.lock().len();
        (count(&self.hits), count(&self.misses), plans)
    }
}

impl Device {
    /// The plan for a graph with this fingerprint, and whether it was made before: for `route`, or for the one that
    /// placement or prediction chooses.
    pub(super) fn cached_or_planned(
        &self,
        wanted: &PlanRequest<'_>,
        graph: Fingerprint,
        route: Option<Route>,
    ) -> Result<(Arc<Prepared>, bool)> {
        let targets = self.targets();
        let key = Key {
            graph,
            placement: self.placement_now(wanted.placement),
            route,
            residents: SmallVec::from_slice(wanted.residents),
            is_stateful: wanted.is_stateful,
            revision: targets.revision,
        };
        if let Some(prepared) = self.0.plans.find(&key) {
            return Ok((prepared, true));
        }
        debug_assert_eq!(wanted.graph.verify(), Ok(()));
        let placed = self.place(wanted, &targets, route)?;
        let is_bound_by_data = self.is_bound_by_data(wanted, &placed);
        let prepared = Prepared::new(wanted.graph, placed, route, is_bound_by_data, &targets);
        let prepared = Arc::new(prepared);
        let _forgotten = self.0.plans.plans.lock().insert(key, Arc::clone(&prepared));
        Ok((prepared, false))
    }

    pub(crate) fn dispatches(&self, plan: &Plan) -> Vec<Dispatch> {
        self.dispatches_by_step(plan).into_iter().flatten().collect()
    }

    pub(crate) fn dispatches_by_step(&self, plan: &Plan) -> Vec<Vec<Dispatch>> {
        let targets = self.targets();
        let limits = &targets.of(plan.backend).limits;
        let lowered = |step: &Step| match step.is_empty() {
            true => Vec::new(),
            false => lower(plan, step, limits),
        };
        plan.steps.iter().map(lowered).collect()
    }
}
