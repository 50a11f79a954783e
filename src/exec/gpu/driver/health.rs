//! How a failure in wgpu becomes an error: error scopes, the handler of what no scope caught, and
//! device loss.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::base::clock::Stopwatch;
use crate::base::sync::{Mutex, MutexGuard};
use crate::base::trace::event;
use crate::error::DeviceError;
use crate::exec::gpu::driver::exit_guard;
use crate::exec::threads::while_set;

thread_local! {
    /// Whether this thread makes a call of this crate that no scope covers.
    static OURS: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread asks why a device is lost.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call outside of any scope, of which an error is this crate's own: [`Health::check`] will tell it. What else no
/// scope catches is an error of somebody who shares the device, and fails no run.
pub(crate) fn ours<R>(call: impl FnOnce() -> R) -> R {
    while_set(&OURS, call)
}

/// What a device has reported outside any call.
#[derive(Default)]
pub(crate) struct Health {
    lost: OnceLock<String>,
    stray: Mutex<Option<String>>,
    /// Held by who asks why it is lost.
    asking: Mutex<()>,
    /// Held by who polls it, and by who submits, for whom wgpu polls it.
    polling: Arc<()>,
    mapped: Mapped,
}

/// Held by who uses mapped memory. When a lost device is polled, wgpu frees what is mapped, whoever has views of it.
pub(crate) type Mapped = Arc<()>;

/// Whether somebody holds what is counted by `count`. Of two threads that each do what the other looks for, then call
/// this or look whether the device is lost, at least one sees it.
fn is_held(count: &Arc<()>) -> bool {
    fence(Ordering::SeqCst);
    let is_held = Arc::strong_count(count) > 1;
    // What was done while it was held is done.
    fence(Ordering::Acquire);
    is_held
}

impl Health {
    /// For a new user of `device`, whose health this is: it reports here from now on, instead of panicking or to whom its
    /// last user chose. An error that nobody was told is nobody's.
    pub fn watch(self: &Arc<Self>, device: &wgpu::Device) {
        *self.stray() = None;
        let stray = Arc::clone(self);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            // It is told on the thread that made the call; in a browser later, and nobody knows whose it is.
            if OURS.get() || cfg!(target_arch = "wasm32") {
                *stray.stray() = Some(error.to_string());
            } else {
                event!(ERROR, "wgpu refused a call of its user", error = error.to_string());
            }
        }));
        let lost = Arc::clone(self);
        device.set_device_lost_callback(move |reason, message| {
            let message = if message.is_empty() { format!("{reason:?}") } else { message };
            lost.lose(message);
        });
    }

    fn stray(&self) -> MutexGuard<'_, Option<String>> {
        self.stray.lock()
    }

    pub fn lose(&self, reason: String) {
        // The first reason is the cause; what follows are its effects.
        if let Ok(()) = self.lost.set(reason) {
            event!(ERROR, "device lost", reason = self.loss());
        }
    }

    pub fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// The right to use mapped memory, unless the device is lost.
    pub fn map(&self) -> Option<Mapped> {
        self.hold(&self.mapped).ok()
    }

    /// Holds what is counted by `count`, for [`is_held`].
    ///
    /// # Errors
    /// If the device is known to be lost.
    fn hold(&self, count: &Arc<()>) -> Result<Arc<()>, DeviceError> {
        let held = Arc::clone(count);
        fence(Ordering::SeqCst);
        self.check_loss().map(|()| held)
    }

    /// Submits `commands` to `queue`, which is the device's: wgpu polls it then.
    ///
    /// # Errors
    /// If the device is known to be lost.
    pub fn submit(
        &self,
        queue: &wgpu::Queue,
        commands: wgpu::CommandBuffer,
    ) -> Result<wgpu::SubmissionIndex, DeviceError> {
        let _polling = self.hold(&self.polling)?;
        Ok(queue.submit([commands]))
    }

    /// Whether mapped memory is in use, once the device is lost.
    pub fn is_mapped(&self) -> bool {
        is_held(&self.mapped)
    }

    /// Has `destroy` lose the device, once nobody polls it who does not know that.
    pub fn lose_by(&self, destroy: impl FnOnce()) {
        const PATIENCE: Duration = Duration::from_secs(1);
        const LOOK: Duration = Duration::from_micros(100);
        self.lose("it was destroyed".into());
        let waiting = Stopwatch::started();
        while is_held(&self.polling) && waiting.total() < PATIENCE {
            thread::sleep(LOOK);
        }
        destroy();
    }

    /// Why the device is lost, if it is.
    pub fn loss(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Fails if `device` is lost, or with an error of [`ours`] since the last check.
    pub fn check(&self, device: &wgpu::Device) -> Result<(), DeviceError> {
        self.check_loss()?;
        let stray = self.stray().take();
        let Some(reason) = stray else { return Ok(()) };
        self.probe(device)?;
        Err(DeviceError::Refused { doing: "an earlier command".into(), reason })
    }

    /// Fails if the device is known to be lost.
    fn check_loss(&self) -> Result<(), DeviceError> {
        match self.lost.get() {
            None => Ok(()),
            Some(reason) => Err(DeviceError::Lost { reason: reason.clone() }),
        }
    }

    /// Fails if the device is lost, also if nobody was told yet: to be asked before what it refused is taken for wrong,
    /// as a lost one refuses what is sound.
    pub fn probe(&self, device: &wgpu::Device) -> Result<(), DeviceError> {
        if is_dead(device) { Err(self.lost(device, "it refuses what was sound")) } else { Ok(()) }
    }

    /// The error for `what`, which happens to a lost device alone. wgpu tells of the loss only when the
    /// device is polled and idle, and its reason is the better one.
    pub fn lost(&self, device: &wgpu::Device, what: &str) -> DeviceError {
        // One asks for all: each poll goes through all buffers of a lost device, under a lock. It makes callbacks, which
        // may end here again.
        let lock = || self.asking.lock();
        let _asking = (!ASKING.get()).then(lock);
        let _ = while_set(&ASKING, || self.poll(device, wgpu::PollType::Poll));
        let reason = self.lost.get_or_init(|| what.into()).clone();
        DeviceError::Lost { reason }
    }

    /// Polls the device. Never panics: wgpu does when the device is lost. While the process ends and no driver is at work,
    /// it only waits a moment, for those who poll until something is done.
    pub fn poll(
        &self,
        device: &wgpu::Device,
        how: wgpu::PollType,
    ) -> Result<wgpu::PollStatus, wgpu::PollError> {
        let Ok(_polling) = self.hold(&self.polling) else {
            return Ok(wgpu::PollStatus::QueueEmpty);
        };
        let Ok(_passing) = exit_guard::attend() else {
            thread::sleep(Duration::from_millis(1));
            return Ok(wgpu::PollStatus::QueueEmpty);
        };
        catch_unwind(AssertUnwindSafe(|| device.poll(how))).unwrap_or_else(|_| {
            self.lose("the driver reported an error while it was polled".into());
            Ok(wgpu::PollStatus::QueueEmpty)
        })
    }
}

/// Catches every error of the calls on this thread between `open` and `close`.
///
/// Scopes close in the reverse order of opening; so the fields are declared, for when this is dropped.
pub(crate) struct Scope<'a> {
    internal: wgpu::ErrorScopeGuard,
    validation: wgpu::ErrorScopeGuard,
    memory: wgpu::ErrorScopeGuard,
    device: &'a wgpu::Device,
    health: &'a Health,
}

impl<'a> Scope<'a> {
    pub fn open(device: &'a wgpu::Device, health: &'a Health) -> Self {
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        Self { internal, validation, memory, device, health }
    }

    /// The first error since `open`, as one of `doing`, or the device's loss. In a browser errors come
    /// later, so there the handler of the device reports them.
    pub fn close(self, doing: impl FnOnce() -> String) -> Result<(), DeviceError> {
        let (device, health) = (self.device, self.health);
        self.close_alone(doing)?;
        health.check(device)
    }

    /// As [`close`](Self::close), but what an earlier call left is for the next check to tell: what was done since `open`
    /// cannot be undone.
    ///
    /// # Errors
    /// If one of the calls was refused, or the device is lost.
    pub fn close_alone(self, doing: impl FnOnce() -> String) -> Result<(), DeviceError> {
        let internal = ready(self.internal.pop());
        let validation = ready(self.validation.pop());
        let memory = ready(self.memory.pop());
        match memory.or(validation).or(internal) {
            None => self.health.check_loss(),
            Some(wgpu::Error::OutOfMemory { .. }) => {
                Err(DeviceError::OutOfMemory { doing: doing() })
            }
            Some(error) => {
                self.health.probe(self.device)?;
                Err(DeviceError::Refused { doing: doing(), reason: error.to_string() })
            }
        }
    }
}

/// Whether the device makes no buffers though it gives no error, as only a lost one does.
pub(crate) fn is_dead(device: &wgpu::Device) -> bool {
    let scope = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let probe = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("onetrip probe"),
        size: 4,
        usage: wgpu::BufferUsages::MAP_WRITE,
        mapped_at_creation: true,
    });
    ready(scope.pop()).is_none() && probe.get_mapped_range_mut(..).is_err()
}

/// The value of a future that is ready at once, as a popped scope's is outside browsers.
fn ready<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => None,
    }
}
