//! Polling the device until submitted work has finished: in the future that waits for it at first, then on a thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_timer::Delay;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use crate::base::panic::caught;
use crate::base::sync::{Condvar, Mutex, MutexGuard};
use crate::exec::gpu::driver::health::Health;
use crate::exec::gpu::driver::reaper::drop_here;
use crate::exec::gpu::driver::{driver_lock, exit_guard};
use crate::exec::gpu::submit::coalesce::{Coalescer, InFlight, Sent};
use crate::exec::gpu::submit::completion::{Completion, CompletionResult};

/// How long a future polls the device before it lets others have the thread: what a small trip takes.
const SPIN: Duration = Duration::from_micros(120);

/// Looks whether results of a lost device are still read.
const LOOK: Duration = Duration::from_millis(20);

/// How long the device is polled before somebody waits for it: drivers wake who waits a tenth of a millisecond
/// late, or several.
struct PollTime {
    /// By a future, which lets others have its thread in between.
    future: Duration,
    /// By the polling thread.
    thread: Duration,
}

impl PollTime {
    /// What polls takes cores from a software adapter.
    fn with(software: bool) -> Self {
        if software {
            return Self { future: SPIN, thread: Duration::ZERO };
        }
        Self { future: Duration::from_millis(2), thread: Duration::from_millis(5) }
    }
}

/// Sees to it that the callbacks of submitted work come: a thread that polls the device and submits what is due while
/// runs are under way or wait, and else sleeps.
pub(crate) struct Poller {
    watch: Arc<Watch>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Watch {
    device: wgpu::Device,
    health: Arc<Health>,
    gather: Arc<Coalescer>,
    poll_time: PollTime,
    /// Whether somebody has the [`Spin`].
    spinning: AtomicBool,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// In the order of submission, or nearly.
    flights: VecDeque<Sent>,
    /// Whether the device is lost and what was registered with it was called.
    called_back: bool,
    end: Option<End>,
}

impl Queue {
    /// After others had it: more may be registered with a lost device, but not once nobody has that.
    fn look_again(&mut self) {
        self.called_back &= self.end.is_some();
    }
}

/// How the thread ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Awaited,
    /// Nobody waits for it: it stays until the results of the lost device were read.
    Alone,
}

impl Poller {
    pub fn start(
        device: wgpu::Device,
        health: Arc<Health>,
        gather: Arc<Coalescer>,
        software: bool,
    ) -> std::io::Result<Self> {
        let watch = Arc::new(Watch {
            device,
            health,
            gather,
            poll_time: PollTime::with(software),
            spinning: AtomicBool::new(false),
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        let watched = Arc::clone(&watch);
        let run = move || {
            watched.run();
            // The last handle, if nobody waited for this thread.
            drop_here(watched);
        };
        let thread = thread::Builder::new().name("onetrip-poll".into()).spawn(run)?;
        Ok(Self { watch, thread: Some(thread) })
    }

    /// Leaves a submission to the thread.
    pub fn watch(&self, index: wgpu::SubmissionIndex, ticket: Arc<Completion>) {
        self.watch_all([(index, ticket)]);
    }

    /// Leaves submissions to the thread.
    pub fn watch_all(&self, sent: impl IntoIterator<Item = Sent>) {
        let mut left = sent.into_iter().filter(|(_, ticket)| !ticket.is_done()).peekable();
        if left.peek().is_some() {
            self.watch.queue().flights.extend(left);
            self.watch.changed.notify_one();
        }
    }

    /// Has the thread see to the runs that wait to be submitted.
    pub fn wake(&self) {
        // If it has looked already and found nothing, it sleeps by now.
        drop(self.watch.queue());
        self.watch.changed.notify_one();
    }

    /// Until shortly before the end of what takes so long yet: from then on its future may poll, since a thread is
    /// woken a tenth of a millisecond late, and by a timer later still. `None` if that is now, or polling would take
    /// cores from the adapter.
    pub fn wait_before(&self, left: Duration) -> Option<Delay> {
        const LEAST: Duration = Duration::from_micros(600);
        let most = self.watch.poll_time.future - SPIN;
        let wait = left.saturating_sub((left / 16).clamp(LEAST.min(most), most));
        (!wait.is_zero() && !most.is_zero()).then(|| Delay::new(wait))
    }

    /// After callbacks were registered: has the thread call them if the device was lost meanwhile.
    pub fn wake_if_lost(&self) {
        if self.watch.health.is_lost() {
            self.wake();
        }
    }

    /// The right to poll the device in the future of `ticket`, since waking threads costs more than a small trip takes.
    /// One future has it at a time; with others waiting there is no small trip, and it is not given.
    pub fn begin_spin(&self, ticket: &Arc<Completion>) -> Option<Spin> {
        let watch = &self.watch;
        if watch.has_others(ticket) || watch.spinning.swap(true, Ordering::Acquire) {
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

/// What came of a [`Spin`]'s polling.
pub(crate) enum Spun {
    Landed(CompletionResult),
    /// Nothing yet: it is worth while to poll on, after others have had the thread.
    Again,
    /// Nothing, and it may take long.
    Enough,
}

impl Spin {
    /// Polls for a moment, unless a driver that takes long might make that more.
    pub fn poll(
        &self,
        ticket: &Arc<Completion>,
        receiver: &mut Receiver<CompletionResult>,
    ) -> Spun {
        let Some(_turn) = driver_lock::short() else { return Spun::Enough };
        let watch = &self.watch;
        let start = Instant::now();
        loop {
            let _ = watch.health.poll(&watch.device, wgpu::PollType::Poll);
            match receiver.try_recv() {
                Ok(landing) => return Spun::Landed(landing),
                Err(TryRecvError::Closed) => return Spun::Landed(CompletionResult::Unmapped),
                Err(TryRecvError::Empty) => thread::yield_now(),
            }
            let enough = self.start.elapsed() > watch.poll_time.future;
            if enough || watch.health.is_lost() || watch.has_others(ticket) {
                return Spun::Enough;
            }
            if start.elapsed() > SPIN {
                return Spun::Again;
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
        let mut queue = self.watch.queue();
        let health = &self.watch.health;
        let is_read = health.is_lost() && !queue.called_back && health.is_mapped();
        let end = if is_read { End::Alone } else { End::Awaited };
        queue.end = Some(end);
        drop(queue);
        self.watch.changed.notify_one();
        // Waits for the thread to let go of the device: a driver may not outlive a process that ends
        // meanwhile. The thread itself may hold the last handle.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
            && end == End::Awaited
        {
            let _ = thread.join();
        }
    }
}

impl Watch {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Whether others than `ticket` are to be waited for, or wait to be submitted.
    fn has_others(&self, ticket: &Arc<Completion>) -> bool {
        let is_other = |(_, other): &Sent| !Arc::ptr_eq(other, ticket) && !other.is_done();
        self.gather.has_waiting() || self.queue().flights.iter().any(is_other)
    }

    /// Submits the runs that wait, if it is time.
    fn send_due(&self) {
        let Ok(_passing) = exit_guard::attend() else { return };
        // Whoever waits for the thread would wait forever if it ended.
        match caught(|| self.gather.send_due()) {
            Ok(sent) if sent.is_empty() => {}
            Ok(sent) => self.queue().flights.extend(sent),
            Err(reason) => self.health.lose(reason),
        }
    }

    fn run(&self) {
        while let Some(InFlight { index, ticket }) = self.next() {
            let start = Instant::now();
            while start.elapsed() < self.poll_time.thread
                && !ticket.is_done()
                && !self.health.is_lost()
            {
                let _ = self.health.poll(&self.device, wgpu::PollType::Poll);
                self.send_due();
                thread::yield_now();
            }
            if ticket.is_done() {
                self.send_due();
                continue;
            }
            if index.is_none() {
                // Somebody is about to submit it: there is nothing to wait for yet.
                let _ = self.health.poll(&self.device, wgpu::PollType::Poll);
                self.send_due();
                thread::yield_now();
                continue;
            }
            // With no end to the wait: when one ends early, wgpu asserts that work is left, but another
            // thread's poll or submit may have seen to the last of it. A lost device ends every wait.
            let wait = wgpu::PollType::Wait { submission_index: index, timeout: None };
            if let Err(wgpu::PollError::WrongSubmissionIndex(..)) =
                self.health.poll(&self.device, wait)
            {
                // It was never submitted, so nothing will finish; its callbacks may still be due.
                let _ = self.health.poll(&self.device, wgpu::PollType::Poll);
                ticket.give_up();
            }
            self.send_due();
        }
    }

    /// Sees to what is registered with a lost device, which holds buffers until it is called: nobody else does now. What
    /// was submitted may still be under way.
    fn call_back(&self) {
        let timeout = Some(Duration::from_secs(1));
        let wait = wgpu::PollType::Wait { submission_index: None, timeout };
        let Ok(_passing) = exit_guard::attend() else { return };
        let _ = caught(|| self.device.poll(wait));
    }

    /// The first flight that has not landed, or what runs wait for to be submitted. Sleeps while there is neither; `None`
    /// when there will be none.
    fn next(&self) -> Option<InFlight> {
        let mut queue = self.queue();
        queue.look_again();
        loop {
            // Whoever waits for a flight holds the device, so at its end nobody waits.
            if self.health.is_lost() && !queue.called_back {
                let flights = std::mem::take(&mut queue.flights);
                drop(queue);
                // Who is woken may come here at once, and what is let go of may take long.
                flights.into_iter().for_each(|(_, ticket)| ticket.give_up());
                self.gather.give_up();
                queue = self.queue();
                if self.health.is_mapped() {
                    if queue.end == Some(End::Awaited) {
                        return None;
                    }
                    let waited = self.changed.wait_timeout(queue, LOOK);
                    queue = waited.0;
                    continue;
                }
                drop(queue);
                self.call_back();
                queue = self.queue();
                queue.called_back = true;
                // Much may have come meanwhile.
                continue;
            }
            if queue.end.is_some() {
                return None;
            }
            while queue.flights.front().is_some_and(|(_, ticket)| ticket.is_done()) {
                queue.flights.pop_front();
            }
            let front = queue.flights.front().cloned();
            let first = front.map(|(index, ticket)| InFlight { index: Some(index), ticket });
            match first.or_else(|| self.gather.awaited()) {
                Some(first) => return Some(first),
                None => {
                    queue = self.changed.wait(queue);
                    queue.look_again();
                }
            }
        }
    }
}
