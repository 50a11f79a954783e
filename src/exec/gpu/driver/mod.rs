//! The one layer that calls a driver: nothing else in the crate names a wgpu device or queue, but the files that share
//! them with the user.
//!
//! A [`Driver`] is an opened device with its queue. Whoever calls it says only how the call behaves:
//!
//! | method | the call | kept apart by |
//! |---|---|---|
//! | [`call`](Driver::call) | a group of calls, made while the process does not end and the device is sound | [`exit_guard`], [`health`] |
//! | [`checked`](Driver::checked) | makes objects; an error of any call is the error of all | [`scope`] |
//! | [`work`](Driver::work) | as `checked`, while the driver loads more of itself | [`exit_guard`], [`scope`] |
//! | [`submit`](Driver::submit) | hands commands to the queue | [`scope`], [`health`] |
//! | [`poll`](Driver::poll) | polls, and never panics | [`exit_guard`], [`health`] |
//! | [`short`](Driver::short), [`try_short`](Driver::try_short) | never waits for a long call on an async thread | [`driver_lock`] |
//! | [`release`](Driver::release), [`close`](Driver::close), [`DriverOwned`] | destroys objects | [`reaper`] |
//!
//! [`adapter`] chooses among adapters, [`open`] opens and adopts, [`warm_up`] has the driver load its compilers,
//! [`device_cache`] keeps the device for the next user, [`health_registry`] knows the health of each device,
//! [`pin_libraries`] keeps libraries loaded at the end of the process. The quirk that each file works around is in its
//! documentation.

mod adapter;
mod calls;
mod device_cache;
mod driver_lock;
mod exit_guard;
mod handle;
mod health;
mod health_registry;
mod open;
mod opened;
#[cfg(target_os = "linux")]
mod pin_libraries;
mod reaper;
mod scope;
mod warm_up;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub(crate) use adapter::{AdapterChoice, GpuInfo};
pub(crate) use calls::Calls;
pub(crate) use exit_guard::DriverWork;
pub(crate) use handle::Handle;
pub(crate) use health::Mapped;
pub(crate) use reaper::DriverOwned;

use self::exit_guard::ExitGuard;
use self::health::Health;
use self::opened::Opened;
use self::scope::Scope;
use crate::base::future::BoxFuture;
use crate::base::process::caught;
use crate::base::single_flight::SingleFlight;
use crate::cost::Limits;
use crate::error::DeviceError;

/// An opened device and its queue. Dropping it keeps a device of this crate's own for the next user.
pub(crate) struct Driver {
    opened: Opened,
    /// Whether this crate has opened the device, and not its user.
    is_own: bool,
}

/// The health of a device, for buffers that may outlive the handles of the device.
#[derive(Clone)]
pub(crate) struct Status(Arc<Health>);

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
        // In a box of its own: the proof that wgpu's types are `Send` then starts here, within the recursion limit.
        let opening_one: BoxFuture<'_, _> = Box::pin(open::open(choice, features));
        let opened = opening_one.await?;
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

    pub fn info(&self) -> &GpuInfo {
        &self.opened.info
    }

    /// The limits that a plan for this device must keep to.
    pub fn limits(&self) -> &Limits {
        &self.opened.limits
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
        let scope = Scope::open(&self.opened);
        let result = calls(&Calls(&self.opened))?;
        scope.close(doing)?;
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

    /// As [`checked`](Self::checked), for calls that cannot be undone: an earlier error is left to the next check.
    pub fn lasting<R, E: From<DeviceError>>(
        &self,
        doing: impl FnOnce() -> String,
        calls: impl FnOnce(&Calls<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let scope = Scope::open(&self.opened);
        let result = calls(&Calls(&self.opened))?;
        scope.close_alone(doing)?;
        Ok(result)
    }

    /// Submits `commands`, then has `follow` register the callbacks of their end.
    ///
    /// # Errors
    /// If the commands or a callback were refused, or the device is lost. The commands may have been submitted then.
    pub fn submit(
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

    /// Makes a call of this crate outside all scopes. The next check reports its error.
    pub fn unscoped<R>(call: impl FnOnce() -> R) -> R {
        health::unscoped(call)
    }

    /// The right of a submission to compute until it is dropped, which the end of the process waits for: a driver that
    /// computes on the host is at work meanwhile, and may compile.
    pub fn computing(&self) -> Result<Option<DriverWork>, DeviceError> {
        if self.info().software { exit_guard::work().map(Some) } else { Ok(None) }
    }

    /// Polls the device. Never panics, and does nothing for a lost device.
    pub fn poll(&self, how: wgpu::PollType) -> Result<wgpu::PollStatus, wgpu::PollError> {
        self.opened.health.poll(&self.opened.device, how)
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

    /// The result of short `calls`, made on this thread if they need not wait for a long call, else on another one. If the
    /// future is dropped before that thread is free, the calls are not made.
    pub async fn short<R: Send + 'static>(calls: impl FnOnce() -> R + Send + 'static) -> R {
        driver_lock::in_turn(calls).await
    }

    /// As [`short`](Self::short), by this thread, in the poll that ends the future.
    pub async fn short_in_last_poll<R>(calls: impl FnOnce() -> R) -> R {
        driver_lock::in_last_poll(calls).await
    }

    /// The result of short `calls`; `None` if they might have to wait, and this thread has other futures to poll.
    pub fn try_short<R>(calls: impl FnOnce() -> R) -> Option<R> {
        let _short = driver_lock::short()?;
        Some(calls())
    }

    /// A long call under way, until it is dropped.
    #[cfg(test)]
    pub fn long_call() -> impl Sized {
        driver_lock::long()
    }

    /// Drops `parts` of a device on another thread: thousands of bind groups, or one while a driver compiles, take it
    /// milliseconds.
    pub fn release<T: Send + Sync + 'static>(parts: T) {
        reaper::release(parts);
    }

    /// Waits until parts [released](Self::release) before are dropped, but no longer than `patience`.
    pub fn catch_up(patience: Duration) {
        reaper::catch_up(patience);
    }

    /// Drops a lost device, or objects of one, on another thread once nobody else holds it.
    pub fn close<T: Send + Sync + 'static>(handle: Arc<T>) {
        reaper::close(handle);
    }

    pub fn status(&self) -> Status {
        Status(Arc::clone(&self.opened.health))
    }

    /// Fails if the device is lost, even if that was not reported yet.
    pub fn check(&self) -> Result<(), DeviceError> {
        self.call(|| self.opened.health.probe(&self.opened.device))
    }

    /// Fails if the device is known to be lost, or with an error of an [`unscoped`](Self::unscoped) call since the last
    /// check.
    pub fn check_errors(&self) -> Result<(), DeviceError> {
        self.opened.health.check(&self.opened.device)
    }

    pub fn is_lost(&self) -> bool {
        self.opened.health.is_lost()
    }

    /// The reason of the loss, if the device is lost.
    pub fn loss(&self) -> Option<&str> {
        self.opened.health.loss()
    }

    /// Declares the device lost.
    pub fn lose(&self, reason: String) {
        self.opened.health.lose(reason);
    }

    /// The error for `what`, which only a lost device shows.
    pub fn lost(&self, what: &str) -> DeviceError {
        self.opened.health.lost(&self.opened.device, what)
    }

    /// Whether somebody reads memory of the device, once it is lost.
    pub fn is_mapped(&self) -> bool {
        self.opened.health.is_mapped()
    }

    /// Whether the device makes no buffers, as only a lost device does.
    #[cfg(test)]
    pub fn is_dead(&self) -> bool {
        health::is_dead(&self.opened.device)
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

impl Status {
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    /// The right to use mapped memory, unless the device is lost.
    pub fn map(&self) -> Option<Mapped> {
        self.0.map()
    }
}
