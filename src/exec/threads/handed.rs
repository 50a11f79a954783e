//! Work that was handed over to rayon's threads, until one begins it. All of them may be waiting in runs of the user's for
//! what that work is to make: then a thread of this file's begins it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use super::{Work, spawn, while_set};
use crate::base::sync::{Condvar, Mutex, MutexGuard};

/// How long rayon's threads begin nothing before the spare one does.
const PATIENCE: Duration = Duration::from_millis(20);

static OF_PROCESS: HandedOver = HandedOver::new();

thread_local!(static IS_SPARE: Cell<bool> = const { Cell::new(false) });

/// Work in the order in which it came.
struct HandedOver {
    line: Mutex<Line>,
    /// Told when there is something to watch.
    changed: Condvar,
}

struct Line {
    waiting: VecDeque<Work>,
    /// How much was begun so far.
    begun: u64,
    spare: Spare,
}

/// What the spare thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spare {
    /// It was not started, or could not be.
    None,
    Sleeps,
    Watches,
}

/// Whether this is the spare thread.
pub(super) fn is_spare() -> bool {
    IS_SPARE.get()
}

/// Leaves `work` to one of rayon's threads, or to the spare one if they begin nothing.
pub(super) fn hand_over(work: Work) {
    OF_PROCESS.push(work);
    spawn(|| _ = OF_PROCESS.begin_next());
}

impl HandedOver {
    const fn new() -> Self {
        let line = Line { waiting: VecDeque::new(), begun: 0, spare: Spare::None };
        Self { line: Mutex::new(line), changed: Condvar::new() }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock()
    }

    fn push(&'static self, work: Work) {
        let mut line = self.line();
        line.waiting.push_back(work);
        match line.spare {
            Spare::Watches => return,
            Spare::Sleeps => self.changed.notify_one(),
            Spare::None => {
                let spare = thread::Builder::new().name("onetrip-spare".into());
                if spare.spawn(|| while_set(&IS_SPARE, || self.watch())).is_err() {
                    return;
                }
            }
        }
        line.spare = Spare::Watches;
    }

    /// Does what came first; `false` if there is nothing.
    fn begin_next(&self) -> bool {
        let mut line = self.line();
        let Some(work) = line.waiting.pop_front() else { return false };
        line.begun += 1;
        drop(line);
        work();
        true
    }

    /// Sees to it that what waits is begun, for ever: where nothing was for a while, here.
    fn watch(&self) {
        let mut line = self.line();
        loop {
            let before = line.begun;
            drop(line);
            thread::sleep(PATIENCE);
            line = self.line();
            if line.begun != before {
                continue;
            }
            if line.waiting.is_empty() {
                line = self.sleep(line);
                continue;
            }
            drop(line);
            while self.begin_next() {}
            line = self.line();
        }
    }

    /// Returns once more has come.
    fn sleep<'a>(&'a self, mut line: MutexGuard<'a, Line>) -> MutexGuard<'a, Line> {
        line.spare = Spare::Sleeps;
        while line.spare == Spare::Sleeps {
            line = self.changed.wait(line);
        }
        line
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
            // It sleeps when there was nothing for a while, and is woken.
            while handed.line().spare != Spare::Sleeps {
                thread::yield_now();
            }
        }
        assert!(!handed.begin_next());
        assert_eq!(handed.line().begun, 12);
    }
}
