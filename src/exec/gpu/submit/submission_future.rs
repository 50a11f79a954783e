//! Waiting for a submission without blocking: its future polls the device for a while, then leaves it to the poller.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_timer::Delay;

use super::engine::{Engine, SubmissionTicket};
use super::poll::{Spin, SpinResult};
use super::run_results::GpuRunResults;
use super::submission::{Submission, SubmissionResult};
use crate::base::clock::Stopwatch;
use crate::error::DeviceError;
use crate::exec::gpu::memory::Readback;
use crate::exec::threads::off_thread;

/// A run that takes this long is not polled for from the start: a future polls for half of it.
const LONG: Duration = Duration::from_millis(4);

/// A submission in flight, or a pending run.
///
/// Dropping it leaves out a pending run, and cancels nothing on the device: the buffers of a submission return to the pool
/// when it has finished.
pub(crate) struct SubmissionFuture {
    engine: Arc<Engine>,
    ticket: SubmissionTicket,
    /// The right to poll the device, while this future polls it itself.
    spin: Option<Spin>,
    /// The number of late errors when it was submitted.
    late_errors: u64,
    /// The time that it may take; zero if that is not known.
    expected: Duration,
    since_submission: Stopwatch,
    /// A timer until shortly before the expected end, when this future polls the device again.
    soon: Option<Delay>,
}

/// A run that was submitted.
pub(crate) struct SubmittedRun {
    /// `None` if there was nothing to do.
    pub future: Option<SubmissionFuture>,
    /// Its results as far as they are known before its end.
    pub results: GpuRunResults,
}

impl SubmissionFuture {
    pub fn new(engine: &Arc<Engine>, ticket: SubmissionTicket) -> Self {
        Self {
            engine: Arc::clone(engine),
            late_errors: engine.device.health.late_errors(),
            ticket,
            spin: None,
            expected: Duration::ZERO,
            since_submission: Stopwatch::started(),
            soon: None,
        }
    }

    pub fn submission(&self) -> Arc<Submission> {
        Arc::clone(&self.ticket.submission)
    }

    /// Leaves the waiting to the future of a later submission.
    pub fn leave_to_next(mut self) {
        self.ticket.is_left_to_future = false;
    }

    pub fn set_expected_time(&mut self, time: Duration) {
        self.expected = time;
    }

    /// Polls the device for a while, if this future may.
    fn spin(&mut self, context: &mut Context<'_>) -> Option<SubmissionResult> {
        let SubmissionTicket { submission, receiver, .. } = &mut self.ticket;
        let spin = match self.spin.take() {
            Some(spin) => spin,
            None => self.engine.submissions.poller.begin_spin(submission)?,
        };
        match spin.poll(submission, receiver) {
            SpinResult::Completed(result) => return Some(result),
            SpinResult::Again => {
                self.spin = Some(spin);
                context.waker().wake_by_ref();
            }
            SpinResult::Enough => {}
        }
        None
    }

    /// Returns whether the device should be polled again now. Else the task is woken at that time.
    fn is_soon(&mut self, context: &mut Context<'_>) -> bool {
        let is_now = self.soon.as_mut().is_some_and(|soon| Pin::new(soon).poll(context).is_ready());
        if is_now {
            self.soon = None;
        }
        is_now
    }

    /// Leaves the submission to the poller; false if that was done before.
    fn leave_to_poller(&mut self) -> bool {
        let is_left = std::mem::take(&mut self.ticket.is_left_to_future);
        if is_left {
            self.engine.submissions.poller.watch([self.submission()]);
        }
        is_left
    }

    /// Waits for the end, and returns the results.
    pub async fn finish(mut self) -> Result<Option<Readback>, DeviceError> {
        let result = (&mut self).await;
        let device = &self.engine.device;
        let doing = || "running a batch".into();
        device.check_late_errors(self.late_errors, doing).inspect_err(|_| {
            self.engine.memory.free_idle();
        })?;
        match result {
            // Work that a lost device never did counts as finished too, and the contents of its memory are no results.
            SubmissionResult::Done(Some(readback)) if !device.health.is_lost() => {
                Ok(Some(readback))
            }
            SubmissionResult::Done(_) => device.check_uncaptured_errors().map(|()| None),
            // To learn the reason, the device is polled, which frees all its memory.
            SubmissionResult::Unmapped => {
                const WHY: &str = "its results cannot be mapped";
                let device = Arc::clone(device);
                Err(off_thread(move || device.confirm_loss(WHY)).await)
            }
            SubmissionResult::NotSubmitted(error) => {
                self.engine.memory.groups.clear();
                Err(error)
            }
        }
    }
}

impl Future for SubmissionFuture {
    type Output = SubmissionResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let is_short = this.ticket.is_left_to_future && this.expected < LONG;
        if is_short || this.spin.is_some() || this.is_soon(context) {
            if let Some(result) = this.spin(context) {
                this.ticket.is_left_to_future = false;
                return Poll::Ready(result);
            }
            if this.spin.is_some() {
                return Poll::Pending;
            }
        }
        let result = Pin::new(&mut this.ticket.receiver).poll(context);
        if this.leave_to_poller() && result.is_pending() {
            let left = this.expected.saturating_sub(this.since_submission.total());
            this.soon = this.engine.submissions.poller.wait_before(left);
            if this.is_soon(context) {
                let submission = this.submission();
                this.spin = this.engine.submissions.poller.begin_spin(&submission);
                context.waker().wake_by_ref();
            }
        }
        result.map(|result| result.unwrap_or(SubmissionResult::Unmapped))
    }
}

impl Drop for SubmissionFuture {
    fn drop(&mut self) {
        self.leave_to_poller();
        self.engine.submissions.coalescer.forget(&self.ticket.submission);
    }
}
