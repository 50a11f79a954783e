//! Waiting for a submission without blocking: its future polls the device for a while, then leaves it to the poller.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_timer::Delay;
use tokio::sync::oneshot;

use super::record::Script;
use crate::base::clock::Stopwatch;
use crate::error::DeviceError;
use crate::exec::gpu::Shared;
use crate::exec::gpu::submit::coalesce::Pending;
use crate::exec::gpu::submit::completion::{Completion, CompletionResult, Held};
use crate::exec::gpu::submit::mapped_after::{MappedAfter, Readback};
use crate::exec::gpu::submit::poll::{Spin, Spun};
use crate::exec::threads::off_thread;

/// A run that takes this long is not polled for from the start: a future polls for half of it.
const LONG: Duration = Duration::from_millis(4);

/// A run that is submitted, or waits for that.
///
/// Dropping it leaves out one that waits, and cancels nothing on the device: its buffers return to the pool when it has
/// finished.
pub(crate) struct Flight {
    shared: Arc<Shared>,
    ticket: Arc<Completion>,
    receiver: oneshot::Receiver<CompletionResult>,
    /// Until the poller watches the submission.
    index: Option<wgpu::SubmissionIndex>,
    /// While this future polls the device itself.
    spin: Option<Spin>,
    /// How long it may take; zero if nobody knows.
    expected: Duration,
    /// Since it was submitted, or waits for that.
    flown: Stopwatch,
    /// Until shortly before its expected end, when this future polls the device again.
    soon: Option<Delay>,
}

impl Flight {
    fn new(
        shared: &Arc<Shared>,
        ticket: Arc<Completion>,
        receiver: oneshot::Receiver<CompletionResult>,
        index: Option<wgpu::SubmissionIndex>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            ticket,
            receiver,
            index,
            spin: None,
            expected: Duration::ZERO,
            flown: Stopwatch::started(),
            soon: None,
        }
    }

    /// Submits `commands`. Until they have finished, `held` is held, even if the flight is dropped.
    pub fn submit(
        shared: &Arc<Shared>,
        commands: wgpu::CommandBuffer,
        returns: MappedAfter,
        held: Held,
    ) -> Self {
        shared.depart_all();
        let (ticket, receiver) = Completion::new(held);
        let Ok(index) = shared.health.submit(&shared.queue, commands) else {
            ticket.give_up();
            return Self::new(shared, ticket, receiver, None);
        };
        returns.follow(&shared.queue, Arc::clone(&ticket));
        shared.poller.wake_if_lost();
        Self::new(shared, ticket, receiver, Some(index))
    }

    /// As [`submit`](Self::submit), at once or together with others that come meanwhile.
    pub fn depart(shared: &Arc<Shared>, script: Script, held: Held) -> Self {
        let (ticket, receiver) = Completion::new(held);
        let index = shared.depart(Pending { script, ticket: Arc::clone(&ticket) });
        Self::new(shared, ticket, receiver, index)
    }

    pub fn ticket(&self) -> Arc<Completion> {
        Arc::clone(&self.ticket)
    }

    /// Leaves the waiting to the flight of what was submitted after it.
    pub fn leave_to_next(mut self) {
        self.index = None;
    }

    /// Says how long it may take.
    pub fn expect(&mut self, time: Duration) {
        self.expected = time;
    }

    /// Polls the device for a while, if this future may.
    fn spin(&mut self, context: &mut Context<'_>) -> Option<CompletionResult> {
        let spin = match self.spin.take() {
            Some(spin) => spin,
            None => self.shared.poller.begin_spin(&self.ticket)?,
        };
        match spin.poll(&self.ticket, &mut self.receiver) {
            Spun::Landed(landing) => return Some(landing),
            Spun::Again => {
                self.spin = Some(spin);
                context.waker().wake_by_ref();
            }
            Spun::Enough => {}
        }
        None
    }

    /// Whether it is now that the device should be polled again. Else the task is woken then.
    fn is_soon(&mut self, context: &mut Context<'_>) -> bool {
        let is_now = self.soon.as_mut().is_some_and(|soon| Pin::new(soon).poll(context).is_ready());
        if is_now {
            self.soon = None;
        }
        is_now
    }

    /// Whether it was not left to the poller before.
    fn leave_to_poller(&mut self) -> bool {
        let Some(index) = self.index.take() else { return false };
        self.shared.poller.watch(index, Arc::clone(&self.ticket));
        true
    }

    /// Waits for the end, and says what came of it.
    pub async fn land(mut self) -> Result<Option<Readback>, DeviceError> {
        let landing = (&mut self).await;
        let shared = Arc::clone(&self.shared);
        match landing {
            // Work that a lost device never did counts as finished too, and what it left in memory is no result.
            CompletionResult::Done(Some(readback)) if !shared.health.is_lost() => {
                Ok(Some(readback))
            }
            CompletionResult::Done(_) => shared.health.check(&shared.device).map(|()| None),
            // To hear why, the device is polled, which frees all that it held.
            CompletionResult::Unmapped => {
                const WHY: &str = "its results cannot be mapped";
                Err(off_thread(move || shared.health.lost(&shared.device, WHY)).await)
            }
            CompletionResult::Refused(error) => {
                shared.groups.clear();
                Err(error)
            }
        }
    }
}

impl Future for Flight {
    type Output = CompletionResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let flight = &mut *self;
        let is_short = flight.index.is_some() && flight.expected < LONG;
        if is_short || flight.spin.is_some() || flight.is_soon(context) {
            if let Some(landing) = flight.spin(context) {
                flight.index = None;
                return Poll::Ready(landing);
            }
            if flight.spin.is_some() {
                return Poll::Pending;
            }
        }
        let landing = Pin::new(&mut flight.receiver).poll(context);
        if flight.leave_to_poller() && landing.is_pending() {
            let left = flight.expected.saturating_sub(flight.flown.total());
            flight.soon = flight.shared.poller.wait_before(left);
            if flight.is_soon(context) {
                flight.spin = flight.shared.poller.begin_spin(&flight.ticket);
                context.waker().wake_by_ref();
            }
        }
        landing.map(|landing| landing.unwrap_or(CompletionResult::Unmapped))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.leave_to_poller();
        self.shared.gather.forget(&self.ticket);
    }
}
