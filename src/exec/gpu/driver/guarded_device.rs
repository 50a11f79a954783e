//! A device whose calls are guarded: against the end of the process, against a loss, and against refusals.

use std::ops::Deref;
#[cfg(test)]
use std::sync::Arc;
use std::time::Duration;

use super::calls::Calls;
use super::device_cache;
use super::exit_guard::{self, DriverWork, ExitGuard};
use super::opened_device::OpenedDevice;
use super::scope::Scope;
use crate::base::process::caught;
use crate::error::DeviceError;

/// An opened device with guarded calls. Dropping it keeps a device of this crate's own for the next user.
pub(crate) struct GuardedDevice {
    opened: OpenedDevice,
    /// True if this crate has opened the device, and not its user.
    is_own: bool,
}

impl Deref for GuardedDevice {
    type Target = OpenedDevice;

    fn deref(&self) -> &OpenedDevice {
        &self.opened
    }
}

impl GuardedDevice {
    /// Prepares the process for calls of drivers. To be called on the thread of the user, which may be the main thread.
    pub fn prepare_process() {
        ExitGuard::with_exit_handlers();
    }

    pub(super) fn new(opened: OpenedDevice, is_own: bool) -> Self {
        opened.health.watch(&opened.device);
        Self { opened, is_own }
    }

    /// Another user of the same device.
    #[cfg(test)]
    pub fn shared_with_another(&self) -> Arc<Self> {
        Arc::new(Self::new(self.opened.clone(), false))
    }

    /// The device and the queue, to be shared with the user.
    pub fn raw(&self) -> (&wgpu::Device, &wgpu::Queue) {
        (&self.opened.device, &self.opened.queue)
    }

    /// The limits of the device by wgpu.
    pub fn device_limits(&self) -> wgpu::Limits {
        self.opened.device.limits()
    }

    pub fn has(&self, features: wgpu::Features) -> bool {
        self.opened.device.features().contains(features)
    }

    /// Nanoseconds of a tick of timestamps.
    pub fn timestamp_period(&self) -> f32 {
        self.opened.queue.get_timestamp_period()
    }

    /// Makes `calls` while the end of the process waits for them. A run makes all of its calls inside of one such call.
    ///
    /// # Errors
    /// If the process ends, the device is lost, or an earlier call of this crate was refused.
    pub fn guarded<R, E: From<DeviceError>>(
        &self,
        calls: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let _call = exit_guard::call()?;
        self.check_uncaptured_errors()?;
        calls()
    }

    /// As [`scoped`](Self::scoped), for calls that make objects: an earlier error fails them too.
    ///
    /// # Errors
    /// If one of them was refused while `doing` something, an earlier one was, or the device is lost.
    pub fn scoped_and_checked<R, E: From<DeviceError>>(
        &self,
        doing: impl FnOnce() -> String,
        calls: impl FnOnce(&Calls<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let result = self.scoped(doing, calls)?;
        self.check_uncaptured_errors()?;
        Ok(result)
    }

    /// As [`scoped`](Self::scoped), for calls in which the driver may load more of itself: the end of the process waits
    /// for it.
    pub fn scoped_work<R, E: From<DeviceError>>(
        &self,
        doing: impl FnOnce() -> String,
        calls: impl FnOnce(&Calls<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let _work = exit_guard::work()?;
        self.scoped(doing, calls)
    }

    /// Makes `calls` in an error scope. An earlier error is left to the next check.
    ///
    /// # Errors
    /// If one of them was refused while `doing` something, or the device is lost.
    pub fn scoped<R, E: From<DeviceError>>(
        &self,
        doing: impl FnOnce() -> String,
        calls: impl FnOnce(&Calls<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let scope = Scope::open(&self.opened);
        let result = calls(&Calls(&self.opened))?;
        scope.close(doing)?;
        Ok(result)
    }

    /// Submits `commands`, then has `follow` register the callbacks of their end.
    ///
    /// # Errors
    /// If the commands or a callback were refused, or the device is lost. The commands may have been submitted then.
    pub fn submit_then(
        &self,
        doing: impl FnOnce() -> String,
        commands: wgpu::CommandBuffer,
        follow: impl FnOnce(wgpu::SubmissionIndex),
    ) -> Result<(), DeviceError> {
        self.scoped(doing, |calls| calls.submit(commands).map(follow))
    }

    /// Has `callback` called when everything that was submitted has finished.
    pub fn on_submitted_work_done(&self, callback: impl FnOnce() + Send + 'static) {
        self.opened.queue.on_submitted_work_done(callback);
    }

    /// The right of a submission to compute until it is dropped, which the end of the process waits for: a driver that
    /// computes on the host is at work meanwhile, and may compile.
    pub fn computing(&self) -> Result<Option<DriverWork>, DeviceError> {
        if self.info.software { exit_guard::work().map(Some) } else { Ok(None) }
    }

    /// Has the callbacks called that are registered with the lost device, which frees its mapped memory.
    pub fn poll_lost(&self) {
        let timeout = Some(Duration::from_secs(1));
        let wait = wgpu::PollType::Wait { submission_index: None, timeout };
        self.while_alive(|| drop(caught(|| self.opened.device.poll(wait))));
    }

    /// Makes calls that end work under way: also while the process ends, as long as a driver is at work.
    pub fn while_alive(&self, calls: impl FnOnce()) {
        if let Ok(_call) = exit_guard::attend() {
            calls();
        }
    }

    /// Fails if the device is lost, even if that was not reported yet.
    pub fn check(&self) -> Result<(), DeviceError> {
        self.guarded(|| self.probe())
    }

    /// Loses the device, as a driver might.
    pub fn destroy(&self) {
        self.opened.destroy();
    }
}

impl Drop for GuardedDevice {
    fn drop(&mut self) {
        if self.is_own {
            device_cache::keep(self.opened.clone());
        }
    }
}
