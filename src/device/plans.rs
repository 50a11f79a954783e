//! Plans that were made before: a batch that is recorded anew with the same structure is not planned again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::{Device, Prepared, Wanted};
use crate::base::lru::Lru;
use crate::base::sync::{Mutex, MutexGuard};
use crate::codegen::{Dispatch, lower};
use crate::cost::{Placement, Residence, Way};
use crate::error::Result;
use crate::graph::Fingerprint;
use crate::plan::{Plan, Step};

/// Plans kept.
const PLANS: usize = 1024;

/// What a plan is made for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    graph: Fingerprint,
    placement: Placement,
    /// The way that it goes, where that is not left to prediction.
    way: Option<Way>,
    /// Where the data lies that it binds.
    residents: SmallVec<[Residence; 8]>,
    is_stateful: bool,
    /// That of the device's targets.
    revision: u64,
}

/// The plans of one device.
pub(super) struct Plans {
    plans: Mutex<Lru<Key, Arc<Prepared>>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Default for Plans {
    fn default() -> Self {
        Self {
            plans: Mutex::new(Lru::new(PLANS)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }
}

impl Plans {
    fn find(&self, key: &Key) -> Option<Arc<Prepared>> {
        let found = self.plans.lock().get(key).cloned();
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Plans anew from now on.
    pub fn forget(&self) {
        let _gone = self.plans().extract(|_| true);
    }

    /// Forgets the plans of `graph` for other ways than the one that is `kept`, where it is left to the planner.
    pub fn forget_ways(&self, graph: Fingerprint, kept: Option<Way>) {
        let goes =
            |key: &Key| key.graph == graph && key.placement == Placement::Auto && key.way != kept;
        let _gone = self.plans().extract(goes);
    }

    /// How often a plan was found and not found, and how many there are.
    pub fn counts(&self) -> (u64, u64, usize) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let plans = self.plans().len();
        (count(&self.hits), count(&self.misses), plans)
    }

    fn keep(&self, key: Key, prepared: &Arc<Prepared>) {
        let _forgotten = self.plans().insert(key, Arc::clone(prepared));
    }

    fn plans(&self) -> MutexGuard<'_, Lru<Key, Arc<Prepared>>> {
        self.plans.lock()
    }
}

impl Device {
    /// The plan for a graph with this fingerprint, and whether it was made before: for a way, or for the one that the
    /// placement or prediction chooses.
    pub(super) fn prepared(
        &self,
        wanted: &Wanted<'_>,
        graph: Fingerprint,
        way: Option<Way>,
    ) -> Result<(Arc<Prepared>, bool)> {
        let targets = self.targets();
        let key = Key {
            graph,
            placement: self.placement_now(wanted.placement),
            way,
            residents: SmallVec::from_slice(wanted.residents),
            is_stateful: wanted.is_stateful,
            revision: targets.revision,
        };
        if let Some(prepared) = self.0.plans.find(&key) {
            return Ok((prepared, true));
        }
        debug_assert_eq!(wanted.graph.verify(), Ok(()));
        let placed = self.place(wanted, &targets, way)?;
        let is_bound_by_data = self.is_bound_by_data(wanted, &placed);
        let mut prepared = Prepared::new(wanted.graph, placed, way, &targets);
        prepared.is_bound_by_data = is_bound_by_data;
        let prepared = Arc::new(prepared);
        self.0.plans.keep(key, &prepared);
        Ok((prepared, false))
    }

    /// What a GPU runs for `plan`.
    pub(crate) fn dispatches(&self, plan: &Plan) -> Vec<Dispatch> {
        self.dispatches_by_step(plan).into_iter().flatten().collect()
    }

    /// As [`dispatches`](Self::dispatches), apart for each step.
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
