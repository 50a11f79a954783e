//! Threads that stay awake between the steps of a run. To wake a sleeping thread takes as long as many a step.

use crate::base::sync::{AtomicUsize, Mutex, Ordering, hint, thread};

/// A task for another thread. Calling it never panics.
pub(crate) type BoxedWork = Box<dyn FnOnce() + Send>;

/// Spins of a thread without work before it sleeps: some hundreds of microseconds.
const LOOKS: usize = 5_000;
/// Spins after which a thread leaves its core to others that wait for one.
const YIELD: usize = 64;

static OF_PROCESS: AwakeThreads = AwakeThreads::new();

/// The threads that spin until they are given work.
struct AwakeThreads {
    /// Runs under way. Without one, no thread spins.
    runs: AtomicUsize,
    /// Pieces of work in the queue.
    given: AtomicUsize,
    queue: Mutex<AwakeQueue>,
}

struct AwakeQueue {
    /// Threads that spin. Each of them looks into the queue before it sleeps.
    waiting: usize,
    work: Vec<BoxedWork>,
}

/// A run under way, until it is dropped.
pub(crate) struct KeptAwake(&'static AwakeThreads);

/// Keeps threads awake that have helped, until the result is dropped or they find nothing to do for long.
pub(crate) fn keep_awake() -> KeptAwake {
    OF_PROCESS.runs.fetch_add(1, Ordering::Relaxed);
    KeptAwake(&OF_PROCESS)
}

impl Drop for KeptAwake {
    fn drop(&mut self) {
        self.0.runs.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives `work`, which never panics, to a thread that is awake, or else to one of rayon's.
pub(super) fn spawn(work: impl FnOnce() + Send + 'static) {
    if let Err(work) = OF_PROCESS.give(Box::new(work)) {
        rayon::spawn(move || {
            work();
            OF_PROCESS.stay();
        });
    }
}

impl AwakeThreads {
    const fn new() -> Self {
        let queue = AwakeQueue { waiting: 0, work: Vec::new() };
        Self { runs: AtomicUsize::new(0), given: AtomicUsize::new(0), queue: Mutex::new(queue) }
    }

    /// Gives `work` to a thread that spins. Returns it if there is none.
    fn give(&self, work: BoxedWork) -> Result<(), BoxedWork> {
        let mut queue = self.queue.lock();
        if queue.waiting <= queue.work.len() {
            return Err(work);
        }
        queue.work.push(work);
        self.given.store(queue.work.len(), Ordering::Release);
        Ok(())
    }

    /// Does what this thread is given, until no run is under way or it was given nothing for long.
    fn stay(&self) {
        self.queue.lock().waiting += 1;
        let mut looks = 0;
        loop {
            looks += 1;
            let tired = looks >= LOOKS || self.runs.load(Ordering::Relaxed) == 0;
            if tired || self.given.load(Ordering::Acquire) > 0 {
                let mut queue = self.queue.lock();
                if let Some(work) = queue.work.pop() {
                    self.given.store(queue.work.len(), Ordering::Release);
                    queue.waiting -= 1;
                    drop(queue);
                    work();
                    self.queue.lock().waiting += 1;
                    looks = 0;
                } else if tired {
                    queue.waiting -= 1;
                    return;
                }
            }
            if looks % YIELD == 0 {
                thread::yield_now();
            }
            hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_that_is_awake_does_all_that_it_was_given_and_sleeps_without_a_run() {
        let awake = AwakeThreads::new();
        assert!(awake.give(Box::new(|| ())).is_err(), "no thread is awake");
        for round in 0..20 {
            awake.runs.fetch_add(1, Ordering::Relaxed);
            thread::scope(|scope| {
                let spinning = scope.spawn(|| awake.stay());
                let (sender, done) = mpsc::channel();
                let mut given = 0;
                // The thread may be tired before it is given anything.
                while given < 3 && !spinning.is_finished() {
                    let sender = sender.clone();
                    given += usize::from(awake.give(Box::new(move || _ = sender.send(()))).is_ok());
                }
                awake.runs.fetch_sub(1, Ordering::Relaxed);
                drop(sender);
                assert_eq!(done.iter().count(), given, "round {round}");
            });
            let queue = awake.queue.lock();
            assert_eq!((queue.waiting, queue.work.len()), (0, 0));
        }
    }
}
