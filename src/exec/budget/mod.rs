//! A limit on the memory that runs hold at once. A run that asks for more than is left waits in order of arrival.

use std::collections::VecDeque;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::base::sync::{Arc, Mutex};

/// The memory that runs may hold at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Arc<LimitedBudget>>);

/// Refusal of a request for more than the whole budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMuch {
    pub needs: u64,
    pub budget: u64,
}

#[derive(Debug)]
struct LimitedBudget {
    bytes: u64,
    state: Mutex<BudgetState>,
}

/// The bytes that are left, and the requests that wait.
#[derive(Debug)]
struct BudgetState {
    left: u64,
    waiting: VecDeque<Waiting>,
    /// Number of requests that had to wait so far, which is the next ticket.
    tickets: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    bytes: u64,
    waker: Waker,
}

/// The right to hold memory. It ends when its last clone is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permit(
    #[expect(dead_code, reason = "held to be dropped")] Option<Arc<Reservation>>,
);

#[derive(Debug)]
struct Reservation {
    budget: Arc<LimitedBudget>,
    bytes: u64,
}

impl Budget {
    /// Creates a budget of `bytes`. With `None`, no run ever waits.
    pub fn new(bytes: Option<u64>) -> Self {
        Self(bytes.map(|bytes| {
            let state = BudgetState { left: bytes, waiting: VecDeque::new(), tickets: 0 };
            Arc::new(LimitedBudget { bytes, state: Mutex::new(state) })
        }))
    }

    /// Bytes that one run may hold; `None` without a budget.
    pub fn room(&self) -> Option<u64> {
        self.0.as_ref().map(|limited| limited.bytes)
    }

    /// Waits until `bytes` are left and all earlier requests are served.
    ///
    /// # Errors
    /// [`TooMuch`] at once if `bytes` exceed the whole budget.
    pub async fn admit(&self, bytes: u64) -> Result<Permit, TooMuch> {
        let Some(limited) = &self.0 else {
            return Ok(Permit::default());
        };
        if bytes > limited.bytes {
            return Err(TooMuch { needs: bytes, budget: limited.bytes });
        }
        Admission { budget: limited, bytes, ticket: None }.await;
        Ok(Permit(Some(Arc::new(Reservation { budget: Arc::clone(limited), bytes }))))
    }
}

impl LimitedBudget {
    /// Returns `bytes` to the budget, and wakes the requests that it can serve now.
    fn take_back(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.left += bytes;
        let served = state.serve();
        drop(state);
        served.into_iter().for_each(Waker::wake);
    }
}

impl BudgetState {
    /// Reserves `bytes` at once, or queues the request and returns its ticket.
    fn join(&mut self, bytes: u64, waker: &Waker) -> Option<u64> {
        if self.waiting.is_empty() && bytes <= self.left {
            self.left -= bytes;
            return None;
        }
        let ticket = self.tickets;
        self.tickets += 1;
        self.waiting.push_back(Waiting { ticket, bytes, waker: waker.clone() });
        Some(ticket)
    }

    /// Position of the request with `ticket` in the queue; `None` once it was served.
    fn position(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }

    /// Serves requests from the front as long as enough bytes are left. Returns the wakers of the served requests.
    fn serve(&mut self) -> Vec<Waker> {
        let mut served = Vec::new();
        while let Some(first) = self.waiting.pop_front_if(|first| first.bytes <= self.left) {
            self.left -= first.bytes;
            served.push(first.waker);
        }
        served
    }
}

/// A request for `bytes`, which belong to the caller once the future is ready. A request dropped before leaves the
/// queue, or returns the bytes that it was given.
///
/// Wakers are neither woken nor dropped under the lock. The drop of a last waker drops its task, which may hold a
/// permit.
struct Admission<'a> {
    budget: &'a LimitedBudget,
    bytes: u64,
    ticket: Option<u64>,
}

impl Future for Admission<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let budget = self.budget;
        let mut state = budget.state.lock();
        let Some(ticket) = self.ticket else {
            let ticket = state.join(self.bytes, context.waker());
            drop(state);
            self.ticket = ticket;
            return if ticket.is_none() { Poll::Ready(()) } else { Poll::Pending };
        };
        let Some(at) = state.position(ticket) else {
            drop(state);
            self.ticket = None;
            return Poll::Ready(());
        };
        let earlier = mem::replace(&mut state.waiting[at].waker, context.waker().clone());
        drop(state);
        drop(earlier);
        Poll::Pending
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.budget.state.lock();
        let left = state.position(ticket).and_then(|at| state.waiting.remove(at));
        drop(state);
        // The request that leaves may have blocked the next one.
        self.budget.take_back(if left.is_none() { self.bytes } else { 0 });
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.take_back(self.bytes);
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_never_fits_is_refused_at_once() {
        let budget = Budget::new(Some(4));
        let _held = budget.admit(4).await.unwrap();
        for needs in [5, u64::MAX] {
            let error = budget.admit(needs).await.unwrap_err();
            assert_eq!(error, TooMuch { needs, budget: 4 });
        }
        assert_eq!((budget.room(), Budget::default().room()), (Some(4), None));
        Budget::default().admit(u64::MAX).await.unwrap();
        Budget::new(Some(0)).admit(0).await.unwrap();
    }

    #[tokio::test]
    async fn a_clone_of_a_permit_holds_the_memory_too() {
        let budget = Budget::new(Some(10));
        let clone = budget.admit(8).await.unwrap().clone();
        let waits =
            Box::pin(budget.admit(9)).as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(waits.is_pending());
        drop(clone);
        budget.admit(9).await.unwrap();
    }
}
