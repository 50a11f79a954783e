//! Who is woken when a submission has finished, and with what.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use crate::base::sync::{Mutex, MutexGuard};
use crate::error::DeviceError;
use crate::exec::budget::Permit;
use crate::exec::gpu::driver::exit_guard::DriverWork;
use crate::exec::gpu::submit::mapped_after::Readback;

/// What becomes of a run.
pub(crate) enum CompletionResult {
    /// It has finished, with its results if it had any.
    Done(Option<Readback>),
    /// Its results could not be mapped.
    Unmapped,
    /// It was never submitted.
    Refused(DeviceError),
}

/// The sending end, shared by wgpu's callback and by who may have to give up on it.
pub(crate) struct Completion {
    waiting: Mutex<Option<Waiting>>,
    /// Whether other runs were submitted with it.
    shared: AtomicBool,
}

struct Waiting {
    sender: oneshot::Sender<CompletionResult>,
    #[expect(dead_code, reason = "held")]
    held: Held,
}

/// What a submission holds until it has finished.
#[derive(Default)]
#[expect(dead_code, reason = "held")]
pub(crate) struct Held {
    /// Its memory.
    pub permit: Permit,
    /// Of a driver that computes on threads of its own in this process.
    pub at_work: Option<DriverWork>,
}

impl Completion {
    /// Until the submission has finished, `held` is held, even if the receiver is dropped.
    pub fn new(held: Held) -> (Arc<Self>, oneshot::Receiver<CompletionResult>) {
        let (sender, receiver) = oneshot::channel();
        let waiting = Mutex::new(Some(Waiting { sender, held }));
        (Arc::new(Self { waiting, shared: AtomicBool::new(false) }), receiver)
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock()
    }

    fn take(&self) -> Option<Waiting> {
        self.waiting().take()
    }

    /// Wakes the flight. If that was dropped, what it would have got returns to the pool.
    pub fn land(&self, landing: CompletionResult) {
        if let Some(waiting) = self.take() {
            let _ = waiting.sender.send(landing);
        }
    }

    /// Wakes the flight of a run that could not be submitted.
    pub fn refuse(&self, error: DeviceError) {
        self.land(CompletionResult::Refused(error));
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
