//! Health of a device, as far as it was reported: its loss, errors that no scope caught, and the memory that is mapped.
//!
//! Quirk of wgpu 30, seen in its sources: an error outside all scopes panics unless a handler is set. Tests:
//! `exec/gpu/tests/losses.rs`, `exec/gpu/tests/failures.rs`, `tests/read_after_loss.rs`.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use crate::base::sync::Mutex;
use crate::base::trace::event;
use crate::error::DeviceError;
use crate::exec::threads::while_set;

thread_local! {
    /// True if this thread makes a call of this crate outside all scopes.
    static UNSCOPED: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call of this crate outside all scopes. The next check of uncaptured errors reports its error. Every other error
/// that no scope catches comes from a user who shares the device, and fails no run.
pub(crate) fn unscoped<R>(call: impl FnOnce() -> R) -> R {
    while_set(&UNSCOPED, call)
}

/// The state of a device, as far as it was reported.
#[derive(Default)]
pub(crate) struct Health {
    pub(super) lost: OnceLock<String>,
    /// The last error that no scope caught, until a check takes it.
    pub(super) uncaptured: Mutex<Option<String>>,
    /// Number of errors that came after their calls, as all do in a browser, and none does elsewhere.
    late_errors: AtomicU64,
    /// Held while a thread asks for the reason of the loss.
    pub(super) asking: Mutex<()>,
    /// Counts the threads that poll the device, or submit to it, which polls it too.
    pub(super) polling: Arc<()>,
    mapped: Mapped,
}

/// A use of mapped memory. While there is one, a lost device must not be polled: that frees the memory below its views.
pub(crate) type Mapped = Arc<()>;

/// Returns whether a thread holds a clone of `count`. If one thread takes a clone and then looks for a loss, while
/// another one declares the loss and then calls this, at least one of them sees the other.
pub(super) fn is_held(count: &Arc<()>) -> bool {
    fence(Ordering::SeqCst);
    let is_held = Arc::strong_count(count) > 1;
    // Orders the work of the last holder before the return.
    fence(Ordering::Acquire);
    is_held
}

impl Health {
    /// Has `device`, whose health this is, report here from now on, for a new user: not by a panic, nor to the handlers of
    /// its last user. An error that was reported to nobody is dropped.
    pub fn watch(self: &Arc<Self>, device: &wgpu::Device) {
        *self.uncaptured.lock() = None;
        let health = Arc::clone(self);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            // The handler runs on the thread that made the call. In a browser it runs later, for an unknown caller.
            let is_late = cfg!(target_arch = "wasm32");
            if is_late {
                health.late_errors.fetch_add(1, Ordering::Relaxed);
            }
            if UNSCOPED.get() || is_late {
                *health.uncaptured.lock() = Some(error.to_string());
            } else {
                event!(ERROR, "wgpu refused a call of its user", error = error.to_string());
            }
        }));
        let lost = Arc::clone(self);
        device.set_device_lost_callback(move |reason, message| {
            let message = if message.is_empty() { format!("{reason:?}") } else { message };
            lost.declare_lost(message);
        });
    }

    /// Notes that the device is lost.
    pub fn declare_lost(&self, reason: String) {
        // The first reason is the cause; later ones are its effects.
        if let Ok(()) = self.lost.set(reason) {
            event!(ERROR, "device lost", reason = self.loss_reason());
        }
    }

    /// The number of errors so far that came after their calls. It grows in a browser alone.
    pub fn late_errors(&self) -> u64 {
        self.late_errors.load(Ordering::Relaxed)
    }

    pub fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// The right to use mapped memory, unless the device is lost.
    pub fn map(&self) -> Option<Mapped> {
        self.hold(&self.mapped).ok()
    }

    /// A clone of `count`, for [`is_held`]. Fails if the device is known to be lost.
    pub(super) fn hold(&self, count: &Arc<()>) -> Result<Arc<()>, DeviceError> {
        let held = Arc::clone(count);
        fence(Ordering::SeqCst);
        self.check_not_lost().map(|()| held)
    }

    /// Returns whether mapped memory is in use, once the device is lost.
    pub fn is_mapped(&self) -> bool {
        is_held(&self.mapped)
    }

    /// The reason why the device is lost, if it is.
    pub fn loss_reason(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Fails if the device is known to be lost.
    pub(super) fn check_not_lost(&self) -> Result<(), DeviceError> {
        match self.lost.get() {
            None => Ok(()),
            Some(reason) => Err(DeviceError::Lost { reason: reason.clone() }),
        }
    }
}
