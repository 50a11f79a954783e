//! What only a native host has: threads and a clock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use super::fault::Health;
use super::flight::{Landing, Ticket};
use crate::run::threads::share;

/// How long a future polls the device before it lets others have the thread: what a small trip takes.
const SPIN: Duration = Duration::from_micros(120);

/// How long the device is polled before somebody waits for it: drivers wake who waits a tenth of a millisecond
/// late, or several.
struct Patience {
    /// By a future, which lets others have its thread in between.
    future: Duration,
    /// By the polling thread.
    thread: Duration,
}

impl Patience {
    /// What polls takes cores from a software adapter.
    fn with(software: bool) -> Self {
        if software {
            return Self { future: SPIN, thread: Duration::ZERO };
        }
        Self { future: Duration::from_millis(2), thread: Duration::from_millis(5) }
    }
}

/// Sees to it that the callbacks of submitted work come: a thread that waits for the device while
/// somebody waits for the device, and else sleeps.
pub(super) struct Poller {
    watch: Arc<Watch>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Watch {
    device: wgpu::Device,
    health: Arc<Health>,
    patience: Patience,
    /// Whether somebody has the [`Turn`].
    spinning: AtomicBool,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// In the order of submission, or nearly.
    flights: VecDeque<(wgpu::SubmissionIndex, Arc<Ticket>)>,
    closed: bool,
}

impl Poller {
    pub fn start(
        device: wgpu::Device,
        health: Arc<Health>,
        software: bool,
    ) -> std::io::Result<Self> {
        let watch = Arc::new(Watch {
            device,
            health,
            patience: Patience::with(software),
            spinning: AtomicBool::new(false),
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        let watched = Arc::clone(&watch);
        let run = move || watched.run();
        let thread = thread::Builder::new().name("onetrip-poll".into()).spawn(run)?;
        Ok(Self { watch, thread: Some(thread) })
    }

    /// Leaves a submission to the thread.
    pub fn watch(&self, index: wgpu::SubmissionIndex, ticket: Arc<Ticket>) {
        if ticket.is_done() {
            return;
        }
        self.watch.queue().flights.push_back((index, ticket));
        self.watch.changed.notify_one();
    }

    /// The right to poll the device in a future, since waking threads costs more than a small trip takes. One
    /// future has it at a time; with others waiting there is no small trip, and it is not given.
    pub fn turn(&self) -> Option<Turn> {
        let watch = &self.watch;
        if !watch.queue().flights.is_empty() || watch.spinning.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Turn { watch: Arc::clone(watch), start: Instant::now() })
    }
}

/// The right to poll the device, until it is dropped.
pub(super) struct Turn {
    watch: Arc<Watch>,
    start: Instant,
}

/// What came of a [`Turn`]'s polling.
pub(super) enum Turned {
    Landed(Landing),
    /// Nothing yet: it is worth while to poll on, after others have had the thread.
    Again,
    /// Nothing, and it may take long.
    Enough,
}

impl Turn {
    /// Polls for a moment.
    pub fn spin(&self, receiver: &mut Receiver<Landing>) -> Turned {
        let watch = &self.watch;
        let start = Instant::now();
        loop {
            let _ = watch.health.poll(&watch.device, wgpu::PollType::Poll);
            match receiver.try_recv() {
                Ok(landing) => return Turned::Landed(landing),
                Err(TryRecvError::Closed) => return Turned::Landed(Err(())),
                Err(TryRecvError::Empty) => thread::yield_now(),
            }
            let others = watch.health.is_lost() || !watch.queue().flights.is_empty();
            if others || self.start.elapsed() > watch.patience.future {
                return Turned::Enough;
            }
            if start.elapsed() > SPIN {
                return Turned::Again;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.watch.spinning.store(false, Ordering::Release);
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.watch.queue().closed = true;
        self.watch.changed.notify_one();
        // Waits for the thread to let go of the device: a driver may not outlive a process that ends
        // meanwhile. The thread itself may hold the last handle.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Watch {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some((index, ticket)) = self.next() {
            let start = Instant::now();
            while start.elapsed() < self.patience.thread
                && !ticket.is_done()
                && !self.health.is_lost()
            {
                let _ = self.health.poll(&self.device, wgpu::PollType::Poll);
                thread::yield_now();
            }
            if ticket.is_done() {
                continue;
            }
            // With no end to the wait: when one ends early, wgpu asserts that work is left, but another
            // thread's poll or submit may have seen to the last of it. A lost device ends every wait.
            let wait = wgpu::PollType::Wait { submission_index: Some(index), timeout: None };
            if let Err(wgpu::PollError::WrongSubmissionIndex(..)) =
                self.health.poll(&self.device, wait)
            {
                // It was never submitted, so nothing will finish; its callbacks may still be due.
                let _ = self.health.poll(&self.device, wgpu::PollType::Poll);
                ticket.give_up();
            }
        }
    }

    /// The first flight that has not landed. Sleeps while there is none; `None` when there will be
    /// none.
    fn next(&self) -> Option<(wgpu::SubmissionIndex, Arc<Ticket>)> {
        let mut queue = self.queue();
        loop {
            // Whoever waits for a flight holds the device, so at its end nobody waits.
            if queue.closed {
                return None;
            }
            if self.health.is_lost() {
                queue.flights.drain(..).for_each(|(_, ticket)| ticket.give_up());
            }
            while queue.flights.front().is_some_and(|(_, ticket)| ticket.is_done()) {
                queue.flights.pop_front();
            }
            match queue.flights.front() {
                Some(front) => return Some(front.clone()),
                None => {
                    queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// A thread for what nobody waits for, one thing after the other. It starts with the first; whoever drops it waits
/// until all is done.
#[derive(Default)]
pub(super) struct Clerk(Mutex<Option<Desk>>);

type Errand = Box<dyn FnOnce() + Send>;

struct Desk {
    sender: mpsc::Sender<Errand>,
    thread: thread::JoinHandle<()>,
}

impl Clerk {
    /// Has `work` done; forgets it where no thread can be started.
    pub fn tell(&self, work: impl FnOnce() + Send + 'static) {
        let mut desk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if desk.is_none() {
            *desk = Desk::open().ok();
        }
        if let Some(desk) = &*desk {
            let _ = desk.sender.send(Box::new(work));
        }
    }
}

impl Desk {
    fn open() -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Errand>();
        let run = move || receiver.into_iter().for_each(|work| work());
        let thread = thread::Builder::new().name("onetrip-disk".into()).spawn(run)?;
        Ok(Self { sender, thread })
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        let desk = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Desk { sender, thread }) = desk {
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// The results of `work` on each item, in order, on threads that stay: a driver may hang where one that used it ends
/// while another closes a device.
pub(super) fn parallel<I: Send, R: Send>(items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    let done = Mutex::new(Vec::with_capacity(items.len()));
    share(items.into_iter().enumerate(), |(at, item)| {
        let result = work(item);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}
