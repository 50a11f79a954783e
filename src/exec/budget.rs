//! How much memory runs may hold at once: who asks for more than is left waits for it, in order.

use std::collections::VecDeque;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::base::sync::{Arc, Mutex, MutexGuard};

/// The memory that runs may hold at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Arc<Limited>>);

/// Why a run will never have what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMuch {
    /// Bytes that it asked for.
    pub needs: u64,
    /// Bytes that there are in all.
    pub budget: u64,
}

#[derive(Debug)]
struct Limited {
    bytes: u64,
    line: Mutex<Line>,
}

/// What is left, and who waits for more.
#[derive(Debug)]
struct Line {
    left: u64,
    waiting: VecDeque<Waiting>,
    /// How many had to wait so far.
    tickets: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    bytes: u64,
    waker: Waker,
}

/// The right to hold memory, until its last clone is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permit(#[expect(dead_code, reason = "held to be dropped")] Option<Arc<Held>>);

#[derive(Debug)]
struct Held {
    of: Arc<Limited>,
    bytes: u64,
}

impl Budget {
    /// A budget of `bytes`; without, no run ever waits.
    pub fn new(bytes: Option<u64>) -> Self {
        Self(bytes.map(|bytes| {
            let line = Line { left: bytes, waiting: VecDeque::new(), tickets: 0 };
            Arc::new(Limited { bytes, line: Mutex::new(line) })
        }))
    }

    /// Bytes that one run may hold; `None` without a budget.
    pub fn room(&self) -> Option<u64> {
        self.0.as_ref().map(|limited| limited.bytes)
    }

    /// Waits until `bytes` are left, after all who asked before.
    ///
    /// # Errors
    /// [`TooMuch`], at once, if there are never so many.
    pub async fn admit(&self, bytes: u64) -> Result<Permit, TooMuch> {
        let Some(limited) = &self.0 else {
            return Ok(Permit::default());
        };
        if bytes > limited.bytes {
            return Err(TooMuch { needs: bytes, budget: limited.bytes });
        }
        Admission { to: limited, bytes, ticket: None }.await;
        Ok(Permit(Some(Arc::new(Held { of: Arc::clone(limited), bytes }))))
    }
}

impl Limited {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock()
    }

    /// Takes back what was given, for those who wait.
    fn take_back(&self, bytes: u64) {
        let mut line = self.line();
        line.left += bytes;
        let served = line.serve();
        drop(line);
        served.into_iter().for_each(Waker::wake);
    }
}

impl Line {
    /// Gives `bytes` at once, or a ticket to wait with.
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

    /// Where the holder of `ticket` stands; `None` once it was served.
    fn position(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }

    /// Gives the first what they wait for, as long as there is enough. Returns whom to wake.
    fn serve(&mut self) -> Vec<Waker> {
        let mut served = Vec::new();
        while let Some(first) = self.waiting.pop_front_if(|first| first.bytes <= self.left) {
            self.left -= first.bytes;
            served.push(first.waker);
        }
        served
    }
}

/// Waits for `bytes`, which belong to whom it is ready for. Dropped before, it leaves the line, or gives back what it
/// was given.
///
/// A waker is neither woken nor dropped under the lock: a task that goes with its last waker may hold a permit.
struct Admission<'a> {
    to: &'a Limited,
    bytes: u64,
    /// As long as it waits.
    ticket: Option<u64>,
}

impl Future for Admission<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let to = self.to;
        let mut line = to.line();
        let Some(ticket) = self.ticket else {
            let ticket = line.join(self.bytes, context.waker());
            drop(line);
            self.ticket = ticket;
            return if ticket.is_none() { Poll::Ready(()) } else { Poll::Pending };
        };
        let Some(at) = line.position(ticket) else {
            drop(line);
            self.ticket = None;
            return Poll::Ready(());
        };
        let earlier = mem::replace(&mut line.waiting[at].waker, context.waker().clone());
        drop(line);
        drop(earlier);
        Poll::Pending
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut line = self.to.line();
        let left = line.position(ticket).and_then(|at| line.waiting.remove(at));
        drop(line);
        // Who leaves may have been what the next waited behind.
        self.to.take_back(if left.is_none() { self.bytes } else { 0 });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.take_back(self.bytes);
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;

    async fn is_ready(future: &mut (impl Future + Unpin)) -> bool {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_ready())).await
    }

    #[tokio::test]
    async fn who_asks_first_is_served_first() {
        let budget = Budget::new(Some(10));
        let first = budget.admit(8).await.unwrap();
        let mut large = pin!(budget.admit(9));
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
        let budget = Budget::new(Some(4));
        let held = budget.admit(4).await.unwrap();
        {
            let mut waiting = pin!(budget.admit(4));
            assert!(!is_ready(&mut waiting).await);
        }
        let mut next = pin!(budget.admit(1));
        assert!(!is_ready(&mut next).await);
        drop(held);
        next.await.unwrap();
        budget.admit(4).await.unwrap();
    }

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
}
