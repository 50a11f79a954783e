//! Queue of work that was handed over to rayon's threads. All of them may be waiting in the user's runs for the results
//! of this work. A spare thread then begins it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use super::thread_flag::while_set;
use crate::base::sync::{Condvar, Mutex, MutexGuard};

/// Time in which rayon's threads begin nothing before the spare thread begins some work.
const PATIENCE: Duration = Duration::from_millis(20);

static OF_PROCESS: HandedOver = HandedOver::new();

thread_local!(static IS_SPARE: Cell<bool> = const { Cell::new(false) });

/// A task for another thread. Calling it never panics.
pub(crate) type BoxedWork = Box<dyn FnOnce() + Send>;

/// The queue of handed-over work, in order of arrival.
struct HandedOver {
    queue: Mutex<HandedQueue>,
    /// Notified when there is work to watch.
    changed: Condvar,
}

struct HandedQueue {
    waiting: VecDeque<BoxedWork>,
    begun: u64,
    spare: Spare,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spare {
    /// The thread was not started, or could not be.
    None,
    Sleeps,
    Watches,
}

pub(super) fn is_spare() -> bool {
    IS_SPARE.get()
}

/// Hands `work` over to one of rayon's threads, or to the spare thread if they begin nothing.
pub(super) fn hand_over(work: BoxedWork) {
    OF_PROCESS.push(work);
    rayon::spawn(|| _ = OF_PROCESS.begin_next());
}

impl HandedOver {
    const fn new() -> Self {
        let queue = HandedQueue { waiting: VecDeque::new(), begun: 0, spare: Spare::None };
        Self { queue: Mutex::new(queue), changed: Condvar::new() }
    }

    fn push(&'static self, work: BoxedWork) {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(work);
        match queue.spare {
            Spare::Watches => return,
            Spare::Sleeps => self.changed.notify_one(),
            Spare::None => {
                let spare = thread::Builder::new().name("onetrip-spare".into());
                if spare.spawn(|| while_set(&IS_SPARE, || self.watch())).is_err() {
                    return;
                }
            }
        }
        queue.spare = Spare::Watches;
    }

    /// Runs the oldest piece of work. Returns `false` if there is none.
    fn begin_next(&self) -> bool {
        let mut queue = self.queue.lock();
        let Some(work) = queue.waiting.pop_front() else { return false };
        queue.begun += 1;
        drop(queue);
        work();
        true
    }

    /// Watches the queue for ever. If nothing was begun for [`PATIENCE`], this thread runs all the work that waits.
    fn watch(&self) {
        let mut queue = self.queue.lock();
        loop {
            let before = queue.begun;
            drop(queue);
            thread::sleep(PATIENCE);
            queue = self.queue.lock();
            if queue.begun != before {
                continue;
            }
            if queue.waiting.is_empty() {
                queue = self.sleep(queue);
                continue;
            }
            drop(queue);
            while self.begin_next() {}
            queue = self.queue.lock();
        }
    }

    /// Sleeps until more work has come.
    fn sleep<'a>(&'a self, mut queue: MutexGuard<'a, HandedQueue>) -> MutexGuard<'a, HandedQueue> {
        queue.spare = Spare::Sleeps;
        while queue.spare == Spare::Sleeps {
            queue = self.changed.wait(queue);
        }
        queue
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::exec::threads::off_thread;

    #[test]
    fn what_nobody_begins_the_spare_thread_does_and_waits_for_nobody() {
        let handed: &'static HandedOver = Box::leak(Box::new(HandedOver::new()));
        for _ in 0..3 {
            let (sender, done) = mpsc::channel();
            for at in 0..4 {
                let sender = sender.clone();
                let name = || thread::current().name().map(str::to_owned);
                handed.push(Box::new(move || {
                    let within = pollster::block_on(off_thread(name));
                    sender.send((at, name(), within)).expect("the test waits");
                }));
            }
            drop(sender);
            let spare = Some("onetrip-spare".to_owned());
            let want: Vec<_> = (0..4).map(|at| (at, spare.clone(), spare.clone())).collect();
            assert_eq!(done.iter().collect::<Vec<_>>(), want);
            // The spare thread sleeps after a while without work, and is woken.
            while handed.queue.lock().spare != Spare::Sleeps {
                thread::yield_now();
            }
        }
        assert!(!handed.begin_next());
        assert_eq!(handed.queue.lock().begun, 12);
    }
}
