//! Health of a device: its loss, errors that no scope caught, and the memory that is mapped.
//!
//! Quirks of wgpu 30, seen in its sources and in tests:
//! - `Device::poll` panics when the device is lost, and frees memory that is mapped. A submission polls too.
//! - A loss is reported by a callback alone, and only to a caller that polls the device while it is idle.
//! - A lost device makes buffers without an error, and refuses calls that are sound.
//! - An error outside all scopes panics unless a handler is set.
//! - Each poll of a lost device goes through all of its buffers under a lock: a dozen threads took 3 ms.
//!
//! Tests: `exec/gpu/tests/losses.rs`, `exec/gpu/tests/failures.rs`, `tests/read_after_loss.rs`.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use super::adapter::GpuInfo;
use super::exit_guard;
use super::handle::WgpuHandle;
use crate::base::clock::Stopwatch;
use crate::base::sync::Mutex;
use crate::base::trace::event;
use crate::cost::Limits;
use crate::error::DeviceError;
use crate::exec::threads::while_set;

thread_local! {
    /// True if this thread makes a call of this crate outside all scopes.
    static UNSCOPED: Cell<bool> = const { Cell::new(false) };
    /// True if this thread asks why a device is lost.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call of this crate outside all scopes. The next [check](Opened::check_uncaptured_errors) reports its error. Every other
/// error that no scope catches comes from a user who shares the device, and fails no run.
pub(crate) fn unscoped<R>(call: impl FnOnce() -> R) -> R {
    while_set(&UNSCOPED, call)
}

/// An opened device with its queue, as it is handed from user to user. Clones are the same device.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(super) device: WgpuHandle<wgpu::Device>,
    pub(super) queue: WgpuHandle<wgpu::Queue>,
    pub info: GpuInfo,
    /// The limits that a plan for this device must keep to.
    pub limits: Limits,
    /// One for all users of the device: one of them may lose memory that another one reads.
    pub health: Arc<Health>,
}

/// The state of a device, as far as it was reported.
#[derive(Default)]
pub(crate) struct Health {
    lost: OnceLock<String>,
    stray: Mutex<Option<String>>,
    /// Number of errors that came after their calls, as all do in a browser, and none does elsewhere.
    late_errors: AtomicU64,
    /// Held while a thread asks for the reason of the loss.
    asking: Mutex<()>,
    /// Counts the threads that poll the device, or submit to it, which polls it too.
    polling: Arc<()>,
    mapped: Mapped,
}

/// A use of mapped memory. While there is one, a lost device must not be polled: that frees the memory below its views.
pub(crate) type Mapped = Arc<()>;

/// Returns whether a thread holds a clone of `count`. If one thread takes a clone and then looks for a loss, while
/// another one declares the loss and then calls this, at least one of them sees the other.
fn is_held(count: &Arc<()>) -> bool {
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
        *self.stray.lock() = None;
        let stray = Arc::clone(self);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            // The handler runs on the thread that made the call. In a browser it runs later, for an unknown caller.
            let is_late = cfg!(target_arch = "wasm32");
            if is_late {
                stray.late_errors.fetch_add(1, Ordering::Relaxed);
            }
            if UNSCOPED.get() || is_late {
                *stray.stray.lock() = Some(error.to_string());
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
    fn hold(&self, count: &Arc<()>) -> Result<Arc<()>, DeviceError> {
        let held = Arc::clone(count);
        fence(Ordering::SeqCst);
        self.check_not_lost().map(|()| held)
    }

    /// Returns whether mapped memory is in use, once the device is lost.
    pub fn is_mapped(&self) -> bool {
        is_held(&self.mapped)
    }

    /// Declares the device lost, and calls `destroy` once all polls that began before have ended.
    pub fn lose_by(&self, destroy: impl FnOnce()) {
        const PATIENCE: Duration = Duration::from_secs(1);
        const LOOK: Duration = Duration::from_micros(100);
        self.declare_lost("it was destroyed".into());
        let waiting = Stopwatch::started();
        while is_held(&self.polling) && waiting.total() < PATIENCE {
            thread::sleep(LOOK);
        }
        destroy();
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

impl Opened {
    /// Submits `commands`, which polls the device. Fails if the device is known to be lost.
    pub(super) fn enqueue(
        &self,
        commands: wgpu::CommandBuffer,
    ) -> Result<wgpu::SubmissionIndex, DeviceError> {
        let _polling = self.health.hold(&self.health.polling)?;
        Ok(self.queue.submit([commands]))
    }

    /// Fails if the device is known to be lost, or with an error of [`unscoped`] calls since the last check.
    pub fn check_uncaptured_errors(&self) -> Result<(), DeviceError> {
        self.health.check_not_lost()?;
        let stray = self.health.stray.lock().take();
        let Some(reason) = stray else { return Ok(()) };
        self.probe()?;
        Err(DeviceError::Refused { doing: "an earlier command".into(), reason })
    }

    /// Fails if an error came late since there were `before` of them. Nobody knows whose call it is, so that it fails all
    /// runs that are under way: none of them gets a wrong result.
    ///
    /// # Errors
    /// The error, as one of `doing` something.
    pub fn check_late_errors(
        &self,
        before: u64,
        doing: impl FnOnce() -> String,
    ) -> Result<(), DeviceError> {
        if self.health.late_errors() == before {
            return Ok(());
        }
        self.health.check_not_lost()?;
        let reason = self.health.stray.lock().take();
        let reason = reason.unwrap_or_else(|| "a call of another run was refused".into());
        Err(DeviceError::Refused { doing: doing(), reason })
    }

    /// Waits until the errors of earlier calls have come. A browser finds them in the order of the calls, and tells each
    /// by an event. The event may come after the end of the first scope, but not after that of the second.
    pub async fn late_errors_came(&self) {
        if cfg!(target_arch = "wasm32") {
            for _ in 0..2 {
                let scope = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
                scope.pop().await;
            }
        }
    }

    /// Fails if the device is lost, even if that was not reported yet. It is asked before a refused call is taken for
    /// wrong: a lost device refuses sound calls.
    pub fn probe(&self) -> Result<(), DeviceError> {
        if self.is_silently_lost() {
            Err(self.confirm_loss("it refuses sound calls"))
        } else {
            Ok(())
        }
    }

    /// The error of a loss that `symptom` shows: only a lost device shows it. Declares the device lost, for the reason that
    /// wgpu reports when it is polled and idle, or else for `symptom`.
    pub fn confirm_loss(&self, symptom: &str) -> DeviceError {
        // One thread asks for all: each poll goes through all buffers of a lost device, under a lock. It makes
        // callbacks, which may come here again.
        let _asking = (!ASKING.get()).then(|| self.health.asking.lock());
        let _ = while_set(&ASKING, || self.poll(wgpu::PollType::Poll));
        let reason = self.health.lost.get_or_init(|| symptom.into()).clone();
        DeviceError::Lost { reason }
    }

    /// Polls the device. Never panics, and does nothing for a lost device. While the process ends and no driver is at
    /// work, it only waits a moment: the caller may poll in a loop.
    pub fn poll(&self, how: wgpu::PollType) -> Result<wgpu::PollStatus, wgpu::PollError> {
        let Ok(_polling) = self.health.hold(&self.health.polling) else {
            return Ok(wgpu::PollStatus::QueueEmpty);
        };
        let Ok(_call) = exit_guard::attend() else {
            thread::sleep(Duration::from_millis(1));
            return Ok(wgpu::PollStatus::QueueEmpty);
        };
        catch_unwind(AssertUnwindSafe(|| self.device.poll(how))).unwrap_or_else(|_| {
            self.health.declare_lost("the driver reported an error while it was polled".into());
            Ok(wgpu::PollStatus::QueueEmpty)
        })
    }

    /// Returns whether the device makes no buffers though it reports no error, as only a lost device does. A browser
    /// reports each loss.
    pub fn is_silently_lost(&self) -> bool {
        if cfg!(target_arch = "wasm32") {
            return self.health.is_lost();
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let probe = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("onetrip probe"),
            size: 4,
            usage: wgpu::BufferUsages::MAP_WRITE,
            mapped_at_creation: true,
        });
        ready(scope.pop()).is_none() && probe.get_mapped_range_mut(..).is_err()
    }
}

/// The value of a future that is ready at once, as that of a popped scope is outside browsers.
pub(super) fn ready<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => None,
    }
}
