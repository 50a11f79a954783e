//! The order in which runs that update one resident take turns.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{Handle, Keep};

/// The locks that a run holds while it reads residents and replaces them.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpdateOrder(Vec<Arc<Mutex<()>>>);

impl UpdateOrder {
    /// The order for a batch that binds `bound` and fills `keeps`.
    pub fn of(bound: &[Handle], keeps: &[Keep]) -> Self {
        let kept = keeps.iter().map(|keep| &keep.handle);
        let updated = kept.filter(|kept| bound.iter().any(|bound| bound.is_same(kept)));
        let mut locks: Vec<_> = updated.map(|handle| Arc::clone(handle.update_lock())).collect();
        // All runs take the locks in one order, so no circle of runs can wait for each other.
        locks.sort_by_key(|lock| Arc::as_ptr(lock).addr());
        locks.dedup_by(|one, other| Arc::ptr_eq(one, other));
        Self(locks)
    }

    pub async fn take(&self) -> Vec<OwnedMutexGuard<()>> {
        let mut taken = Vec::with_capacity(self.0.len());
        for lock in &self.0 {
            taken.push(Arc::clone(lock).lock_owned().await);
        }
        taken
    }
}
