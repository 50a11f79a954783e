//! Waiting for a submission without blocking: who is woken when it has finished, and what the host
//! gets then.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::Shared;
use super::fault::ours;
use super::poller::{Spin, Spun};
use super::pool::Lease;
use crate::error::DeviceError;
use crate::run::budget::Permit;

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

/// What a finished submission leaves: its results if it had any; `Err` if they could not be mapped.
pub(super) type Landing = Result<Option<Readback>, ()>;

/// The sending end, shared by wgpu's callback and by who may have to give up on it.
pub(super) struct Ticket(Mutex<Option<Waiting>>);

struct Waiting {
    sender: oneshot::Sender<Landing>,
    /// To hold the memory of the submission.
    permit: Permit,
}

impl Ticket {
    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Waiting> {
        self.waiting().take()
    }

    /// Holds the memory of the submission until it has finished.
    fn hold(&self, permit: Permit) {
        if let Some(waiting) = &mut *self.waiting() {
            waiting.permit = permit;
        }
    }

    /// Wakes the flight. If that was dropped, what it would have got returns to the pool.
    fn land(&self, landing: Landing) {
        if let Some(waiting) = self.take() {
            let _ = waiting.sender.send(landing);
        }
    }

    /// Wakes the flight empty-handed: the callback will not come.
    pub fn give_up(&self) {
        drop(self.take());
    }

    pub fn is_done(&self) -> bool {
        self.waiting().is_none()
    }
}

/// A submission under way.
///
/// Dropping it cancels nothing on the device: its buffers return to the pool when it has finished.
pub(super) struct Flight {
    shared: Arc<Shared>,
    ticket: Arc<Ticket>,
    receiver: oneshot::Receiver<Landing>,
    /// Until the poller watches the submission.
    index: Option<wgpu::SubmissionIndex>,
    /// While this future polls the device itself.
    spin: Option<Spin>,
}

/// What can be submitted.
pub(super) struct Commands {
    buffer: wgpu::CommandBuffer,
    ticket: Arc<Ticket>,
    receiver: oneshot::Receiver<Landing>,
}

impl Commands {
    /// Those of `encoder`, with `staging` mapped again and `readback` (a buffer and the bytes to map) mapped
    /// when they have finished.
    pub fn new(
        encoder: wgpu::CommandEncoder,
        staging: Option<Lease>,
        readback: Option<(Lease, u64)>,
    ) -> Self {
        let (sender, receiver) = oneshot::channel();
        let ticket =
            Arc::new(Ticket(Mutex::new(Some(Waiting { sender, permit: Permit::default() }))));
        // Before the readback, so that the staging buffer is back when the flight lands.
        if let Some(staging) = staging {
            let buffer = staging.buffer.clone();
            encoder.map_buffer_on_submit(&buffer, wgpu::MapMode::Write, .., move |mapped| {
                staging.settle(mapped.is_ok());
            });
        }
        let landing = Arc::clone(&ticket);
        if let Some((mut lease, size)) = readback {
            lease.reusable = false;
            let buffer = lease.buffer.clone();
            encoder.map_buffer_on_submit(&buffer, wgpu::MapMode::Read, ..size, move |mapped| {
                let readback = mapped.ok().and_then(|()| Readback::open(lease, size));
                landing.land(readback.map(Some).ok_or(()));
            });
        } else {
            encoder.on_submitted_work_done(move || landing.land(Ok(None)));
        }
        Self { buffer: encoder.finish(), ticket, receiver }
    }
}

impl Flight {
    /// Submits `commands`. Until they have finished, `permit` is held, even if the flight is dropped.
    pub fn submit(shared: &Arc<Shared>, commands: Commands, permit: Permit) -> Self {
        let Commands { buffer, ticket, receiver } = commands;
        ticket.hold(permit);
        let index = Some(shared.queue.submit([buffer]));
        Self { shared: Arc::clone(shared), ticket, receiver, index, spin: None }
    }

    fn leave_to_poller(&mut self) {
        if let Some(index) = self.index.take() {
            self.shared.poller.watch(index, Arc::clone(&self.ticket));
        }
    }

    fn landed(&self, landing: Landing) -> Result<Option<Readback>, DeviceError> {
        let shared = &self.shared;
        match landing {
            // Work that a lost device never did counts as finished too, and what it left in memory is no result.
            Ok(Some(_)) if shared.health.is_lost() => {
                shared.health.check(&shared.device).map(|()| None)
            }
            Ok(Some(readback)) => Ok(Some(readback)),
            Ok(None) => shared.health.check(&shared.device).map(|()| None),
            Err(()) => Err(shared.health.lost(&shared.device, "its results cannot be mapped")),
        }
    }
}

impl Future for Flight {
    type Output = Result<Option<Readback>, DeviceError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let flight = &mut *self;
        if flight.index.is_some() {
            let spin = flight.spin.take().or_else(|| flight.shared.poller.begin_spin());
            match spin.as_ref().map(|spin| spin.poll(&mut flight.receiver)) {
                Some(Spun::Landed(landing)) => {
                    flight.index = None;
                    return Poll::Ready(flight.landed(landing));
                }
                Some(Spun::Again) => {
                    flight.spin = spin;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Spun::Enough) | None => {}
            }
        }
        let landing = Pin::new(&mut flight.receiver).poll(context);
        flight.leave_to_poller();
        landing.map(|landing| flight.landed(landing.unwrap_or(Err(()))))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.leave_to_poller();
    }
}
