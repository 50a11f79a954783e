//! The cache of plans: a batch that is recorded anew with the same structure is not planned again.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::prepared::PreparedGraph;
use crate::base::lru::Lru;
use crate::base::sync::Mutex;
use crate::cost::{Placement, Residence, Route};
use crate::graph::Fingerprint;

const PLANS: usize = 1024;

/// Everything that a plan depends on.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::device) struct PlanKey {
    pub graph: Fingerprint,
    pub placement: Placement,
    pub route: Option<Route>,
    pub residents: SmallVec<[Residence; 8]>,
    pub is_stateful: bool,
    pub revision: u64,
}

impl Hash for PlanKey {
    /// Hashes the graph alone, which has few plans: each run of a new batch looks for one.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.graph.hash(state);
    }
}

pub(in crate::device) struct PlanCache {
    plans: Mutex<Lru<PlanKey, Arc<PreparedGraph>>>,
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
    pub fn find(&self, key: &PlanKey) -> Option<Arc<PreparedGraph>> {
        let found = self.plans.lock().get(key).cloned();
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    pub fn insert(&self, key: PlanKey, prepared: Arc<PreparedGraph>) {
        let _forgotten = self.plans.lock().insert(key, prepared);
    }

    pub fn forget(&self) {
        let _gone = self.plans.lock().extract(|_| true);
    }

    /// Forgets the plans of `graph` for other routes than the `decided` one, unless a placement names the side.
    pub fn forget_routes(&self, graph: Fingerprint, decided: Option<Route>) {
        let goes = |key: &PlanKey| {
            key.graph == graph && key.placement == Placement::Auto && key.route != decided
        };
        let _gone = self.plans.lock().extract(goes);
    }

    /// Hits, misses, and plans in the cache.
    pub fn counts(&self) -> (u64, u64, usize) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let plans = self.plans.lock().len();
        (count(&self.hits), count(&self.misses), plans)
    }
}
