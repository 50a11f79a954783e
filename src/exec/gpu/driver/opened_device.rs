//! An opened device with its queue: polls, submissions, and checks of its [health](Health).
//!
//! Quirks of wgpu 30, seen in its sources and in tests:
//! - `Device::poll` panics when the device is lost, and frees memory that is mapped. A submission polls too.
//! - A loss is reported by a callback alone, and only to a caller that polls the device while it is idle.
//! - A lost device makes buffers without an error, and refuses calls that are sound.
//! - Each poll of a lost device goes through all of its buffers under a lock: a dozen threads took 3 ms.
//!
//! Tests: `exec/gpu/tests/losses.rs`, `exec/gpu/tests/failures.rs`, `tests/read_after_loss.rs`.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use super::adapter::GpuInfo;
use super::exit_guard;
use super::handle::WgpuHandle;
use super::health::{Health, is_held};
use crate::base::clock::Stopwatch;
use crate::cost::Limits;
use crate::error::DeviceError;
use crate::exec::threads::while_set;

thread_local! {
    /// True if this thread asks why a device is lost.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// An opened device with its queue, as it is handed from user to user. Clones are the same device.
#[derive(Clone)]
pub(crate) struct OpenedDevice {
    pub(super) device: WgpuHandle<wgpu::Device>,
    pub(super) queue: WgpuHandle<wgpu::Queue>,
    pub info: GpuInfo,
    /// The limits that a plan for this device must keep to.
    pub limits: Limits,
    /// One for all users of the device: one of them may lose memory that another one reads.
    pub health: Arc<Health>,
}

impl OpenedDevice {
    /// Submits `commands`, which polls the device. Fails if the device is known to be lost.
    pub(super) fn enqueue(
        &self,
        commands: wgpu::CommandBuffer,
    ) -> Result<wgpu::SubmissionIndex, DeviceError> {
        let _polling = self.health.hold(&self.health.polling)?;
        Ok(self.queue.submit([commands]))
    }

    /// Fails if the device is known to be lost, or with an error of [unscoped](super::unscoped) calls since the last check.
    pub fn check_uncaptured_errors(&self) -> Result<(), DeviceError> {
        self.health.check_not_lost()?;
        let reason = self.health.uncaptured.lock().take();
        let Some(reason) = reason else { return Ok(()) };
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
        let reason = self.health.uncaptured.lock().take();
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
        popped(scope).is_none() && probe.get_mapped_range_mut(..).is_err()
    }

    /// Declares the device lost, and destroys it once all polls that began before have ended.
    pub(super) fn destroy(&self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        const LOOK: Duration = Duration::from_micros(100);
        self.health.declare_lost("it was destroyed".into());
        let waiting = Stopwatch::started();
        while is_held(&self.health.polling) && waiting.total() < PATIENCE {
            thread::sleep(LOOK);
        }
        self.device.destroy();
    }
}

/// The error that a scope caught. Outside browsers it is known at once.
pub(super) fn popped(scope: wgpu::ErrorScopeGuard) -> Option<wgpu::Error> {
    match pin!(scope.pop()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(error) => error,
        Poll::Pending => None,
    }
}
