//! Polling the device until submitted work has finished: in the future that waits for it at first, then on a thread.
//!
//! Quirk: a thread that waits for a driver is woken a tenth of a millisecond late, or several. With NVIDIA 580.159.04 on an
//! H200 one dispatch on 4 KB took 43.6 µs with wgpu's `Wait`, and 24.8 µs polled without end. So the device is polled
//! first, and waited for later. Test: `examples/service_soak`.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_timer::Delay;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use super::coalesce::Coalescer;
use super::submission::{Submission, SubmissionResult};
use crate::base::process::caught;
use crate::base::sync::{Condvar, Mutex};
use crate::exec::gpu::driver::{self, DriverOwned, GuardedDevice};

/// A future polls the device this long before it yields the thread: the time of a small run.
const SPIN: Duration = Duration::from_micros(120);

/// The interval at which the thread checks whether results of a lost device are still being read.
const LOOK: Duration = Duration::from_millis(20);

/// The polling times before a thread waits for the device.
struct PollTime {
    /// The limit for a future, which yields its thread in between.
    future: Duration,
    /// The limit for the polling thread.
    thread: Duration,
}

impl PollTime {
    /// Polling takes cores from a software adapter.
    fn with(software: bool) -> Self {
        if software {
            return Self { future: SPIN, thread: Duration::ZERO };
        }
        Self { future: Duration::from_millis(2), thread: Duration::from_millis(5) }
    }
}

/// A thread that polls the device, which calls the callbacks of submitted work, and submits pending runs. It sleeps while
/// no runs are in flight or pending.
pub(crate) struct Poller {
    watch: Arc<Watch>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Watch {
    device: Arc<GuardedDevice>,
    coalescer: Arc<Coalescer>,
    poll_time: PollTime,
    /// True if a [`Spin`] exists.
    spinning: AtomicBool,
    queue: Mutex<PollQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct PollQueue {
    /// In the order of submission, or nearly.
    in_flight: VecDeque<Arc<Submission>>,
    /// True if the device is lost and its callbacks were called.
    called_back: bool,
    end: Option<ThreadEnd>,
}

impl PollQueue {
    /// After the lock was released: more callbacks may be registered with a lost device, but not after its last handle is
    /// gone.
    fn look_again(&mut self) {
        self.called_back &= self.end.is_some();
    }
}

/// The way in which the thread ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadEnd {
    /// Its owner waits for it.
    Awaited,
    /// Nobody waits for the thread. It stays until the results of the lost device were read.
    Alone,
}

impl Poller {
    pub fn start(device: Arc<GuardedDevice>, coalescer: Arc<Coalescer>) -> std::io::Result<Self> {
        let watch = Arc::new(Watch {
            poll_time: PollTime::with(device.info.software),
            device,
            coalescer,
            spinning: AtomicBool::new(false),
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        // The last handle, if nobody waits for the thread.
        let watched = DriverOwned::new(Arc::clone(&watch));
        let run = move || watched.run();
        let thread = thread::Builder::new().name("onetrip-poll".into()).spawn(run)?;
        Ok(Self { watch, thread: Some(thread) })
    }

    /// Leaves submissions to the thread.
    pub fn watch(&self, submitted: impl IntoIterator<Item = Arc<Submission>>) {
        let in_flight = |submission: &Arc<Submission>| submission.index().is_some();
        let mut left = submitted.into_iter().filter(in_flight).peekable();
        if left.peek().is_some() {
            self.watch.queue.lock().in_flight.extend(left);
            self.watch.changed.notify_one();
        }
    }

    /// Wakes the thread to look at the pending runs.
    pub fn wake(&self) {
        // With the lock, the thread is before its look, or asleep.
        drop(self.watch.queue.lock());
        self.watch.changed.notify_one();
    }

    /// A timer until shortly before the end of work that takes `left` more: then its future may poll, since a thread is
    /// woken a tenth of a millisecond late, and by a timer later still. `None` if that is now, or polling would take cores
    /// from the adapter.
    pub fn wait_before(&self, left: Duration) -> Option<Delay> {
        const LEAST: Duration = Duration::from_micros(600);
        let most = self.watch.poll_time.future - SPIN;
        let wait = left.saturating_sub((left / 16).clamp(LEAST.min(most), most));
        (!wait.is_zero() && !most.is_zero()).then(|| Delay::new(wait))
    }

    /// Wakes the thread to call newly registered callbacks if the device was lost meanwhile.
    pub fn wake_if_lost(&self) {
        if self.watch.device.health.is_lost() {
            self.wake();
        }
    }

    /// The right to poll the device in the future of `submission`: waking a thread takes longer than a small run. One
    /// future has it at a time, and none while others wait: no run is small then.
    pub fn begin_spin(&self, submission: &Arc<Submission>) -> Option<Spin> {
        let watch = &self.watch;
        if watch.has_others(submission) || watch.spinning.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Spin { watch: Arc::clone(watch), start: Instant::now() })
    }
}

/// The right to poll the device, until it is dropped.
pub(crate) struct Spin {
    watch: Arc<Watch>,
    start: Instant,
}

/// The result of polling with a [`Spin`].
pub(crate) enum SpinResult {
    Completed(SubmissionResult),
    /// Nothing yet: it pays to poll on, after others have had the thread.
    Again,
    /// Nothing, and it may take long.
    Enough,
}

impl Spin {
    /// Polls for a moment, unless a long call of a driver might make that more.
    pub fn poll(
        &self,
        submission: &Arc<Submission>,
        receiver: &mut Receiver<SubmissionResult>,
    ) -> SpinResult {
        driver::try_short(|| self.poll_here(submission, receiver)).unwrap_or(SpinResult::Enough)
    }

    fn poll_here(
        &self,
        submission: &Arc<Submission>,
        receiver: &mut Receiver<SubmissionResult>,
    ) -> SpinResult {
        let watch = &self.watch;
        let start = Instant::now();
        loop {
            let _ = watch.device.poll(wgpu::PollType::Poll);
            match receiver.try_recv() {
                Ok(result) => return SpinResult::Completed(result),
                Err(TryRecvError::Closed) => {
                    return SpinResult::Completed(SubmissionResult::Unmapped);
                }
                Err(TryRecvError::Empty) => thread::yield_now(),
            }
            let enough = self.start.elapsed() > watch.poll_time.future;
            if enough || watch.device.health.is_lost() || watch.has_others(submission) {
                return SpinResult::Enough;
            }
            if start.elapsed() > SPIN {
                return SpinResult::Again;
            }
        }
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        self.watch.spinning.store(false, Ordering::Release);
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let mut queue = self.watch.queue.lock();
        let device = &self.watch.device;
        let is_read = device.health.is_lost() && !queue.called_back && device.health.is_mapped();
        let end = if is_read { ThreadEnd::Alone } else { ThreadEnd::Awaited };
        queue.end = Some(end);
        drop(queue);
        self.watch.changed.notify_one();
        // The thread drops its handle of the device before the owner does, so that no driver is called by it while the
        // process ends. The thread itself may hold the last handle.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
            && end == ThreadEnd::Awaited
        {
            let _ = thread.join();
        }
    }
}

impl Watch {
    /// Returns whether other submissions than `submission` are in flight, or runs are pending.
    fn has_others(&self, submission: &Arc<Submission>) -> bool {
        let is_other =
            |other: &Arc<Submission>| !Arc::ptr_eq(other, submission) && !other.is_completed();
        self.coalescer.has_pending() || self.queue.lock().in_flight.iter().any(is_other)
    }

    /// Submits the pending runs, if it is time.
    fn submit_due(&self) {
        // The thread must outlive a panic: others wait for it.
        self.device.while_alive(|| match caught(|| self.coalescer.submit_due()) {
            Ok(submitted) if submitted.is_empty() => {}
            Ok(submitted) => self.queue.lock().in_flight.extend(submitted),
            Err(reason) => self.device.health.declare_lost(reason),
        });
    }

    fn run(&self) {
        while let Some(next) = self.next() {
            self.poll_for(&next);
            self.submit_due();
        }
    }

    /// Polls the device until `submission` has ended, or waits for it once that takes long.
    fn poll_for(&self, submission: &Submission) {
        let start = Instant::now();
        while start.elapsed() < self.poll_time.thread
            && !submission.is_completed()
            && !self.device.health.is_lost()
        {
            let _ = self.device.poll(wgpu::PollType::Poll);
            self.submit_due();
            thread::yield_now();
        }
        if submission.is_completed() {
            return;
        }
        let Some(index) = submission.index() else {
            // Somebody is about to submit it: there is nothing to wait for yet.
            let _ = self.device.poll(wgpu::PollType::Poll);
            thread::yield_now();
            return;
        };
        // The wait has no end: when a wait ends early, wgpu asserts that work is left, but another thread's poll or
        // submission may have ended the last of it. A lost device ends every wait.
        let wait = wgpu::PollType::Wait { submission_index: Some(index), timeout: None };
        if let Err(wgpu::PollError::WrongSubmissionIndex(..)) = self.device.poll(wait) {
            // It was never submitted, so nothing will finish; its callbacks may still be due.
            let _ = self.device.poll(wgpu::PollType::Poll);
            submission.abandon();
        }
    }

    /// The first submission that has not completed, or the one that pending runs wait for. Sleeps while there is neither;
    /// `None` if there will be none.
    fn next(&self) -> Option<Arc<Submission>> {
        let mut queue = self.queue.lock();
        queue.look_again();
        loop {
            // A waiting future holds the device, so at its end nobody waits.
            if self.device.health.is_lost() && !queue.called_back {
                drop(queue);
                if self.abandon_all().is_break() {
                    return None;
                }
                queue = self.queue.lock();
                // Much may have come meanwhile.
                continue;
            }
            if queue.end.is_some() {
                return None;
            }
            while queue.in_flight.front().is_some_and(|first| first.is_completed()) {
                queue.in_flight.pop_front();
            }
            let first = queue.in_flight.front().cloned();
            match first.or_else(|| self.coalescer.awaited()) {
                Some(first) => return Some(first),
                None => {
                    queue = self.changed.wait(queue);
                    queue.look_again();
                }
            }
        }
    }

    /// Abandons all submissions of a lost device. Once no results are being read, polls for the callbacks that hold
    /// buffers. Breaks if results are being read and the owner waits for the thread.
    fn abandon_all(&self) -> ControlFlow<()> {
        let in_flight = std::mem::take(&mut self.queue.lock().in_flight);
        // Without the lock: a woken future may come here at once, and dropping buffers may take long.
        in_flight.into_iter().for_each(|submission| submission.abandon());
        self.coalescer.abandon();
        let queue = self.queue.lock();
        if self.device.health.is_mapped() {
            if queue.end == Some(ThreadEnd::Awaited) {
                return ControlFlow::Break(());
            }
            drop(self.changed.wait_timeout(queue, LOOK));
            return ControlFlow::Continue(());
        }
        drop(queue);
        self.device.poll_lost();
        self.queue.lock().called_back = true;
        ControlFlow::Continue(())
    }
}
