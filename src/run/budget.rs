//! How much memory runs may hold at once: who asks for more than is left waits for it, in order.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::RunError;

/// Bytes are counted by this many, since a semaphore counts in 32 bits.
const UNIT: u64 = 4096;

/// The memory that runs may hold at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Limited>);

#[derive(Clone, Debug)]
struct Limited {
    bytes: u64,
    units: u32,
    left: Arc<Semaphore>,
}

/// The right to hold memory, until its last clone is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permit(#[expect(dead_code, reason = "held to be dropped")] Held);

type Held = Option<Arc<OwnedSemaphorePermit>>;

impl Budget {
    /// A budget of `bytes`, which counts in pages; without `bytes`, no run ever waits.
    pub fn new(bytes: Option<u64>) -> Self {
        Self(bytes.map(|bytes| {
            let units = (bytes / UNIT).min(Semaphore::MAX_PERMITS as u64);
            let units = u32::try_from(units).unwrap_or(u32::MAX);
            Limited { bytes, units, left: Arc::new(Semaphore::new(units as usize)) }
        }))
    }

    /// Bytes that one run may hold; `None` without a budget.
    pub fn room(&self) -> Option<u64> {
        self.0.as_ref().map(|limited| u64::from(limited.units) * UNIT)
    }

    /// Waits until `bytes` are left, after all who asked before.
    ///
    /// # Errors
    /// [`RunError::OverBudget`], at once, if there are never so many.
    pub async fn admit(&self, bytes: u64) -> Result<Permit, RunError> {
        let Some(Limited { bytes: budget, units, left }) = &self.0 else {
            return Ok(Permit::default());
        };
        let refused = || RunError::OverBudget { needs: bytes, budget: *budget };
        let wanted = u32::try_from(bytes.div_ceil(UNIT)).map_err(|_| refused())?;
        if wanted > *units {
            return Err(refused());
        }
        let permit = Arc::clone(left).acquire_many_owned(wanted).await;
        Ok(Permit(Some(Arc::new(permit.map_err(|_| refused())?))))
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    async fn is_ready(future: &mut (impl Future + Unpin)) -> bool {
        poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_ready()))
            .await
    }

    #[tokio::test]
    async fn who_asks_first_is_served_first() {
        let budget = Budget::new(Some(10 * UNIT));
        let first = budget.admit(8 * UNIT).await.unwrap();
        let mut large = pin!(budget.admit(9 * UNIT));
        assert!(!is_ready(&mut large).await);
        let mut small = pin!(budget.admit(1));
        assert!(!is_ready(&mut small).await, "there is room, but another waits");
        let second = first.clone();
        drop(first);
        assert!(!is_ready(&mut large).await, "a clone holds the memory too");
        drop(second);
        let large = large.await.unwrap();
        small.await.unwrap();
        drop(large);
    }

    #[tokio::test]
    async fn who_gives_up_makes_room() {
        let budget = Budget::new(Some(4 * UNIT));
        let held = budget.admit(4 * UNIT).await.unwrap();
        {
            let mut waiting = pin!(budget.admit(4 * UNIT));
            assert!(!is_ready(&mut waiting).await);
        }
        let mut next = pin!(budget.admit(UNIT));
        assert!(!is_ready(&mut next).await);
        drop(held);
        next.await.unwrap();
        budget.admit(4 * UNIT).await.unwrap();
    }

    #[tokio::test]
    async fn what_never_fits_is_refused_at_once() {
        let budget = Budget::new(Some(4 * UNIT + 7));
        let _held = budget.admit(4 * UNIT).await.unwrap();
        for needs in [4 * UNIT + 1, u64::MAX] {
            let error = budget.admit(needs).await.unwrap_err();
            assert_eq!(error, RunError::OverBudget { needs, budget: 4 * UNIT + 7 });
        }
        assert_eq!((budget.room(), Budget::default().room()), (Some(4 * UNIT), None));
        Budget::default().admit(u64::MAX).await.unwrap();
        Budget::new(Some(0)).admit(0).await.unwrap();
    }
}
