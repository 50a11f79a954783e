//! The cache of plans: a batch that is recorded anew with the same structure is not planned again.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

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

pub(in crate::device) struct PlanCache(Mutex<CachedPlans>);

struct CachedPlans {
    by_key: Lru<PlanKey, Arc<PreparedGraph>>,
    hits: u64,
    misses: u64,
}

impl Default for PlanCache {
    fn default() -> Self {
        Self(Mutex::new(CachedPlans { by_key: Lru::new(PLANS), hits: 0, misses: 0 }))
    }
}

impl PlanCache {
    pub fn find(&self, key: &PlanKey) -> Option<Arc<PreparedGraph>> {
        let mut plans = self.0.lock();
        let found = plans.by_key.get(key).cloned();
        *if found.is_some() { &mut plans.hits } else { &mut plans.misses } += 1;
        found
    }

    pub fn insert(&self, key: PlanKey, prepared: Arc<PreparedGraph>) {
        let _forgotten = self.0.lock().by_key.insert(key, prepared);
    }

    pub fn forget(&self) {
        let _gone = self.0.lock().by_key.extract(|_| true);
    }

    /// Forgets the plans of `graph` for other routes than the `decided` one, unless a placement names the side.
    pub fn forget_routes(&self, graph: Fingerprint, decided: Option<Route>) {
        let goes = |key: &PlanKey| {
            key.graph == graph && key.placement == Placement::Auto && key.route != decided
        };
        let _gone = self.0.lock().by_key.extract(goes);
    }

    /// Hits, misses, and plans in the cache.
    pub fn counts(&self) -> (u64, u64, usize) {
        let plans = self.0.lock();
        (plans.hits, plans.misses, plans.by_key.len())
    }
}
