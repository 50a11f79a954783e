//! Waiting for a submission without blocking: who is woken when it has finished, and what the host
//! gets then.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_timer::Delay;
use tokio::sync::oneshot;

use super::Shared;
use super::fault::ours;
use super::gather::Departure;
use super::poller::{Spin, Spun};
use super::pool::Lease;
use super::record::Script;
use crate::clock::Stopwatch;
use crate::error::DeviceError;
use crate::run::budget::Permit;

/// A run that takes this long is not polled for from the start: a future polls for half of it.
const LONG: Duration = Duration::from_millis(4);

/// Results in host memory: a mapped buffer, which returns to the pool when dropped.
pub(super) struct Readback {
    /// `None` only while dropping.
    view: Option<wgpu::BufferView>,
    lease: Lease,
}

impl Readback {
    fn open(lease: Lease, size: u64) -> Option<Self> {
        let view = lease.buffer.get_mapped_range(..size).ok()?;
        Some(Self { view: Some(view), lease })
    }

    pub fn bytes(&self) -> &[u8] {
        self.view.as_deref().unwrap_or_default()
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        // A buffer with a view of it left cannot be unmapped.
        self.view = None;
        ours(|| self.lease.buffer.unmap());
        self.lease.reusable = true;
    }
}

/// What becomes of a run.
pub(super) enum Landing {
    /// It has finished, with its results if it had any.
    Done(Option<Readback>),
    /// Its results could not be mapped.
    Unmapped,
    /// It was never submitted.
    Refused(DeviceError),
}

/// The sending end, shared by wgpu's callback and by who may have to give up on it.
pub(super) struct Ticket {
    waiting: Mutex<Option<Waiting>>,
    /// Whether other runs were submitted with it.
    shared: AtomicBool,
}

struct Waiting {
    sender: oneshot::Sender<Landing>,
    /// To hold the memory of the submission.
    #[expect(dead_code, reason = "held")]
    permit: Permit,
}

impl Ticket {
    /// Until the submission has finished, `permit` is held, even if the receiver is dropped.
    pub fn new(permit: Permit) -> (Arc<Self>, oneshot::Receiver<Landing>) {
        let (sender, receiver) = oneshot::channel();
        let waiting = Mutex::new(Some(Waiting { sender, permit }));
        (Arc::new(Self { waiting, shared: AtomicBool::new(false) }), receiver)
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Waiting> {
        self.waiting().take()
    }

    /// Wakes the flight. If that was dropped, what it would have got returns to the pool.
    fn land(&self, landing: Landing) {
        if let Some(waiting) = self.take() {
            let _ = waiting.sender.send(landing);
        }
    }

    /// Wakes the flight of a run that could not be submitted.
    pub fn refuse(&self, error: DeviceError) {
        self.land(Landing::Refused(error));
    }

    /// Says whether other runs were submitted with it.
    pub fn share(&self, shared: bool) {
        self.shared.store(shared, Ordering::Relaxed);
    }

    /// Wakes the flight empty-handed: the callback will not come.
    pub fn give_up(&self) {
        drop(self.take());
    }

    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    pub fn is_done(&self) -> bool {
        self.waiting().is_none()
    }
}

/// A run that is submitted, or waits for that.
///
/// Dropping it leaves out one that waits, and cancels nothing on the device: its buffers return to the pool when it has finished.
pub(super) struct Flight {
    shared: Arc<Shared>,
    ticket: Arc<Ticket>,
    receiver: oneshot::Receiver<Landing>,
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

/// What the host has again when a submission has finished.
#[derive(Default)]
pub(super) struct Returns {
    /// To be mapped again.
    pub staging: Option<Lease>,
    /// To be read, with the bytes to map.
    pub readback: Option<(Lease, u64)>,
}

impl Returns {
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.staging.iter().chain(self.readback.as_ref().map(|(readback, _)| readback))
    }

    /// To be called once what uses the buffers is submitted. When that has finished, they are mapped and `ticket` is told.
    pub fn follow(self, queue: &wgpu::Queue, ticket: Arc<Ticket>) {
        // Before the readback, so that the staging buffer is back when the flight lands.
        if let Some(staging) = self.staging {
            let buffer = staging.buffer.clone();
            buffer.map_async(wgpu::MapMode::Write, .., move |mapped| {
                staging.settle(mapped.is_ok());
            });
        }
        if let Some((mut lease, size)) = self.readback {
            lease.reusable = false;
            let buffer = lease.buffer.clone();
            buffer.map_async(wgpu::MapMode::Read, ..size, move |mapped| {
                let readback = mapped.ok().and_then(|()| Readback::open(lease, size));
                ticket.land(readback.map_or(Landing::Unmapped, |it| Landing::Done(Some(it))));
            });
        } else {
            queue.on_submitted_work_done(move || ticket.land(Landing::Done(None)));
        }
    }
}

impl Flight {
    fn new(
        shared: &Arc<Shared>,
        ticket: Arc<Ticket>,
        receiver: oneshot::Receiver<Landing>,
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

    /// Submits `commands`. Until they have finished, `permit` is held, even if the flight is dropped.
    pub fn submit(
        shared: &Arc<Shared>,
        commands: wgpu::CommandBuffer,
        returns: Returns,
        permit: Permit,
    ) -> Self {
        shared.depart_all();
        let (ticket, receiver) = Ticket::new(permit);
        let index = Some(shared.queue.submit([commands]));
        returns.follow(&shared.queue, Arc::clone(&ticket));
        shared.poller.wake_if_lost();
        Self::new(shared, ticket, receiver, index)
    }

    /// As [`submit`](Self::submit), at once or together with others that come meanwhile.
    pub fn depart(shared: &Arc<Shared>, script: Script, permit: Permit) -> Self {
        let (ticket, receiver) = Ticket::new(permit);
        let index = shared.depart(Departure { script, ticket: Arc::clone(&ticket) });
        Self::new(shared, ticket, receiver, index)
    }

    pub fn ticket(&self) -> Arc<Ticket> {
        Arc::clone(&self.ticket)
    }

    /// Says how long it may take.
    pub fn expect(&mut self, time: Duration) {
        self.expected = time;
    }

    /// Polls the device for a while, if this future may.
    fn spin(&mut self, context: &mut Context<'_>) -> Option<Landing> {
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

    fn landed(&self, landing: Landing) -> Result<Option<Readback>, DeviceError> {
        let shared = &self.shared;
        match landing {
            // Work that a lost device never did counts as finished too, and what it left in memory is no result.
            Landing::Done(Some(_)) if shared.health.is_lost() => {
                shared.health.check(&shared.device).map(|()| None)
            }
            Landing::Done(Some(readback)) => Ok(Some(readback)),
            Landing::Done(None) => shared.health.check(&shared.device).map(|()| None),
            Landing::Unmapped => {
                Err(shared.health.lost(&shared.device, "its results cannot be mapped"))
            }
            Landing::Refused(error) => {
                shared.bind_groups().retain(|_| false);
                Err(error)
            }
        }
    }
}

impl Future for Flight {
    type Output = Result<Option<Readback>, DeviceError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let flight = &mut *self;
        let is_short = flight.index.is_some() && flight.expected < LONG;
        if is_short || flight.spin.is_some() || flight.is_soon(context) {
            if let Some(landing) = flight.spin(context) {
                flight.index = None;
                return Poll::Ready(flight.landed(landing));
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
        landing.map(|landing| flight.landed(landing.unwrap_or(Landing::Unmapped)))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.leave_to_poller();
        self.shared.gather.forget(&self.ticket);
    }
}
