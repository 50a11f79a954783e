//! The one layer that calls a driver: nothing else in the crate names a wgpu device or queue, but the files that share
//! them with the user.
//!
//! A [`Driver`] is an opened device with its queue. A caller chooses a method by the behaviour of the call:
//!
//! | method | the call | kept apart by |
//! |---|---|---|
//! | [`call`](Driver::call) | a group of calls, made while the process does not end and the device is sound | [`exit_guard`], [`health`] |
//! | [`checked`](Driver::checked) | makes objects; an error of any call is the error of all | [`scope`] |
//! | [`work`](Driver::work) | as `checked`, while the driver loads more of itself | [`exit_guard`], [`scope`] |
//! | [`submit_then`](Driver::submit_then) | hands commands to the queue, and registers callbacks | [`scope`], [`health`] |
//! | [`poll`](Opened::poll) | polls, and never panics | [`exit_guard`], [`health`] |
//! | [`in_turn`], [`in_last_poll`], [`try_short`] | never waits for a long call on an async thread | [`driver_lock`] |
//! | [`release`], [`close`], [`DriverOwned`] | destroys objects | [`reaper`] |
//!
//! [`adapter`] chooses among adapters, and [`open`] opens or adopts a device. [`warm_up`] makes the driver load its
//! compilers. [`device_cache`] keeps a device for its next user. [`health_registry`] knows the health of each device.
//! [`pin_libraries`] keeps libraries loaded at the end of the process. Each file documents the quirk that it works
//! around.

mod adapter;
mod calls;
mod device_cache;
mod driver_lock;
mod exit_guard;
mod handle;
mod health;
mod health_registry;
mod open;
#[cfg(target_os = "linux")]
mod pin_libraries;
mod reaper;
mod scope;
mod warm_up;

use std::ops::Deref;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub(crate) use adapter::{AdapterChoice, GpuInfo};
pub(crate) use calls::Calls;
#[cfg(test)]
pub(crate) use driver_lock::long;
pub(crate) use driver_lock::{in_last_poll, in_turn, try_short};
pub(crate) use exit_guard::DriverWork;
pub(crate) use handle::WgpuHandle;
pub(crate) use health::{Health, Mapped, unscoped};
pub(crate) use reaper::{DriverOwned, catch_up, close, release};

use self::exit_guard::ExitGuard;
use self::health::Opened;
use self::scope::Scope;
use crate::base::future::BoxFuture;
use crate::base::process::caught;
use crate::base::single_flight::SingleFlight;
use crate::error::DeviceError;

/// An opened device and its queue. Dropping it keeps a device of this crate's own for the next user.
pub(crate) struct Driver {
    opened: Opened,
    /// True if this crate has opened the device, and not its user.
    is_own: bool,
}

impl Deref for Driver {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        &self.opened
    }
}

impl Driver {
    /// Prepares the process for calls of drivers. To be called on the thread of the user, which may be the main thread.
    pub fn prepare_process() {
        ExitGuard::of_process();
    }

    /// Opens the best adapter that fits `choice`, with those of `features` that it has.
    ///
    /// Quirk: NVIDIA 580.159.04 crashed in 1 of 24 processes while 13 threads opened devices, so one is opened at a time.
    pub async fn open(
        choice: &AdapterChoice,
        features: wgpu::Features,
    ) -> Result<Arc<Self>, DeviceError> {
        static OPENING: LazyLock<SingleFlight> = LazyLock::new(SingleFlight::default);
        let opening = OPENING.alone(&()).await;
        let _work = exit_guard::work()?;
        // In a box, where the proof that wgpu's types are `Send` ends: it would exceed a user's recursion limit.
        let opened: BoxFuture<'_, _> = Box::pin(open::open(choice, features));
        let opened = opened.await?;
        drop(opening);
        let driver = Arc::new(Self::new(opened, true));
        driver.warm_up().await;
        Ok(driver)
    }

    /// A device that its user opened on `adapter`, and closes.
    pub fn adopt(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Result<Arc<Self>, DeviceError> {
        Ok(Arc::new(Self::new(open::adopt(adapter, device, queue)?, false)))
    }

    fn new(opened: Opened, is_own: bool) -> Self {
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

    /// Makes `calls` while the end of the process waits for them.
    ///
    /// # Errors
    /// If the process ends, the device is lost, or an earlier call of this crate was refused.
    pub fn call<R, E: From<DeviceError>>(
        &self,
        calls: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let _call = exit_guard::call()?;
        self.check_errors()?;
        calls()
    }

    /// Makes `calls`, which make objects.
    ///
    /// # Errors
    /// If one of them was refused while `doing` something, an earlier one was, or the device is lost.
    pub fn checked<R, E: From<DeviceError>>(
        &self,
        doing: impl FnOnce() -> String,
        calls: impl FnOnce(&Calls<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let result = self.lasting(doing, calls)?;
        self.check_errors()?;
        Ok(result)
    }

    /// As [`checked`](Self::checked), for calls in which the driver may load more of itself. An earlier error is not
    /// confused with one of these calls.
    pub fn work<R, E: From<DeviceError>>(
        &self,
        doing: impl FnOnce() -> String,
        calls: impl FnOnce(&Calls<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let _work = exit_guard::work()?;
        self.lasting(doing, calls)
    }

    /// As [`checked`](Self::checked), for calls that cannot be undone. An earlier error is left to the next check.
    pub fn lasting<R, E: From<DeviceError>>(
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
        self.lasting(doing, |calls| calls.submit(commands).map(follow))
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
        self.call(|| self.probe())
    }

    /// Loses the device, as a driver might.
    pub fn destroy(&self) {
        self.opened.health.lose_by(|| self.opened.device.destroy());
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.is_own {
            device_cache::keep(self.opened.clone());
        }
    }
}
