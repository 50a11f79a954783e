//! Stand-ins for the polling thread in a browser, which calls the callbacks of submitted work by itself.

use std::sync::Arc;
use std::time::Duration;

use futures_timer::Delay;
use tokio::sync::oneshot::Receiver;

use super::coalesce::Coalescer;
use super::submission::{Submission, SubmissionResult};
use crate::exec::gpu::driver::GuardedDevice;

/// Polls nothing.
pub(crate) struct Poller(());

/// The right to poll the device, which nobody gets.
pub(crate) enum Spin {}

/// The result of polling with a [`Spin`].
#[expect(dead_code, reason = "nobody polls")]
pub(crate) enum SpinResult {
    Completed(SubmissionResult),
    Again,
    Enough,
}

#[expect(clippy::unused_self, reason = "the methods are those of the polling thread")]
impl Poller {
    #[expect(clippy::unnecessary_wraps, reason = "the signature is that of the polling thread")]
    pub fn start(_: Arc<GuardedDevice>, _: Arc<Coalescer>) -> std::io::Result<Self> {
        Ok(Self(()))
    }

    pub fn watch(&self, _: impl IntoIterator<Item = Arc<Submission>>) {}

    pub fn wake(&self) {}

    pub fn wait_before(&self, _: Duration) -> Option<Delay> {
        None
    }

    pub fn wake_if_lost(&self) {}

    pub fn begin_spin(&self, _: &Arc<Submission>) -> Option<Spin> {
        None
    }
}

impl Spin {
    pub fn poll(&self, _: &Arc<Submission>, _: &mut Receiver<SubmissionResult>) -> SpinResult {
        match *self {}
    }
}
