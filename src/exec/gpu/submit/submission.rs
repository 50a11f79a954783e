//! The states of a submission, from the moment at which its run waits for the queue until its end, and the buffers that
//! are mapped then.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::base::sync::Mutex;
use crate::error::DeviceError;
use crate::exec::budget::Permit;
use crate::exec::gpu::driver::{DriverWork, GuardedDevice};
use crate::exec::gpu::memory::{Lease, Readback};

/// The end of a submission.
pub(crate) enum SubmissionResult {
    /// The device has finished it, with the results if there are any.
    Done(Option<Readback>),
    /// Its results could not be mapped.
    Unmapped,
    /// It was never submitted.
    NotSubmitted(DeviceError),
}

/// The submission of one run, perhaps together with others: pending, in flight or completed. A callback of wgpu completes
/// it, or a thread that has to give up on it.
pub(crate) struct Submission(Mutex<SubmissionState>);

enum SubmissionState {
    /// It is encoded, and not yet submitted.
    Pending(Waiter),
    /// It is on the queue.
    InFlight { waiter: Waiter, index: wgpu::SubmissionIndex, is_shared: bool },
    /// Its waiter has the result, or knows that none will come.
    Completed { is_shared: bool },
}

struct Waiter {
    sender: oneshot::Sender<SubmissionResult>,
    #[expect(dead_code, reason = "held")]
    held: SubmissionPermit,
}

/// The rights that a submission holds until it has finished.
#[derive(Default)]
#[expect(dead_code, reason = "held")]
pub(crate) struct SubmissionPermit {
    /// Its memory.
    pub permit: Permit,
    /// The work of a driver that computes on threads of its own in this process.
    pub work: Option<DriverWork>,
}

impl Submission {
    /// A pending submission. Until it has finished, `held` is held, even if the receiver is dropped.
    pub fn new(held: SubmissionPermit) -> (Arc<Self>, oneshot::Receiver<SubmissionResult>) {
        let (sender, receiver) = oneshot::channel();
        let pending = SubmissionState::Pending(Waiter { sender, held });
        (Arc::new(Self(Mutex::new(pending))), receiver)
    }

    /// Pending → in flight, together with others if it `is_shared`. A submission that was given up stays completed.
    pub fn submitted(&self, index: wgpu::SubmissionIndex, is_shared: bool) {
        let mut state = self.0.lock();
        *state = match std::mem::replace(&mut *state, SubmissionState::Completed { is_shared }) {
            SubmissionState::Pending(waiter) => {
                SubmissionState::InFlight { waiter, index, is_shared }
            }
            other => other,
        };
    }

    /// Pending or in flight → completed: wakes the waiter. If that is gone, the buffers of the result return to the pool.
    pub fn complete(&self, result: SubmissionResult) {
        if let Some(waiter) = self.end() {
            let _ = waiter.sender.send(result);
        }
    }

    /// Pending or in flight → completed without a result: no callback will come.
    pub fn abandon(&self) {
        drop(self.end());
    }

    /// Completes, and hands out the waiter, which is woken without the lock: it may come here at once.
    fn end(&self) -> Option<Waiter> {
        let mut state = self.0.lock();
        let is_shared = state.is_shared();
        match std::mem::replace(&mut *state, SubmissionState::Completed { is_shared }) {
            SubmissionState::Pending(waiter) | SubmissionState::InFlight { waiter, .. } => {
                Some(waiter)
            }
            SubmissionState::Completed { .. } => None,
        }
    }

    /// The place in the queue, while it is in flight.
    pub fn index(&self) -> Option<wgpu::SubmissionIndex> {
        match &*self.0.lock() {
            SubmissionState::InFlight { index, .. } => Some(index.clone()),
            SubmissionState::Pending(_) | SubmissionState::Completed { .. } => None,
        }
    }

    /// Returns whether other runs were submitted with it.
    pub fn is_shared(&self) -> bool {
        self.0.lock().is_shared()
    }

    pub fn is_completed(&self) -> bool {
        matches!(*self.0.lock(), SubmissionState::Completed { .. })
    }
}

impl SubmissionState {
    fn is_shared(&self) -> bool {
        match *self {
            Self::Pending(_) => false,
            Self::InFlight { is_shared, .. } | Self::Completed { is_shared } => is_shared,
        }
    }
}

/// The buffers of one submission that are mapped after it.
#[derive(Default)]
pub(crate) struct MappedAfter {
    /// To be filled by a later run.
    pub staging: Option<Lease>,
    /// To be read, with the bytes to map.
    pub readback: Option<(Lease, u64)>,
}

impl MappedAfter {
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.staging.iter().chain(self.readback.as_ref().map(|(readback, _)| readback))
    }

    /// Registers the callbacks that map the buffers and complete `submission`. To be called once the commands that use the
    /// buffers are submitted.
    pub fn register(self, device: &GuardedDevice, submission: Arc<Submission>) {
        // Before the readback, so that the staging buffer is back when the run completes.
        if let Some(staging) = self.staging {
            let buffer = staging.buffer.clone();
            buffer.map_async(wgpu::MapMode::Write, .., move |mapped| {
                staging.set_reusable(mapped.is_ok());
            });
        }
        if let Some((lease, size)) = self.readback {
            lease.set_reusable(false);
            let buffer = lease.buffer.clone();
            buffer.map_async(wgpu::MapMode::Read, ..size, move |mapped| {
                let readback = mapped.ok().and_then(|()| Readback::open(lease, size));
                let done = |readback| SubmissionResult::Done(Some(readback));
                submission.complete(readback.map_or(SubmissionResult::Unmapped, done));
            });
        } else {
            let complete = move || submission.complete(SubmissionResult::Done(None));
            device.on_submitted_work_done(complete);
        }
    }
}
