//! Threads that help the runs on the cores. A thread that is done spins for some tens of microseconds, since to wake
//! one takes as long as many a step. Threads help only while other cores than those of the runs' own threads are free.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::thread;

use super::pool::{comes_soon, count, whole_cores};
use crate::base::process::is_forked_child;
use crate::base::sync::{AtomicUsize, Condvar, Mutex, Ordering};

static OF_PROCESS: LazyLock<Helpers> = LazyLock::new(|| Helpers::new(count, whole_cores() - 1));

struct Helpers {
    /// Returns the number of threads that runs are shared out over. There is a helper less.
    threads: fn() -> usize,
    queue: Mutex<HelperQueue>,
    /// Notified when there is work for a thread that sleeps.
    changed: Condvar,
    /// Pieces of work in the queue that no thread has claimed. Idle threads look here, and take the lock only once they have
    /// claimed a piece.
    waiting: AtomicUsize,
    /// Runs under way on the cores, each of which has a thread of its own.
    runs: AtomicUsize,
    /// Most idle threads that spin.
    most_spinning: usize,
}

/// Help for the owner of some work. Giving it never panics.
pub(super) trait Help: Send {
    fn give(&mut self);

    /// Spins until the same help is wanted once more, but not for long and not after `ended`. Returns whether it is
    /// wanted.
    fn is_wanted_soon(&self, ended: &dyn Fn() -> bool) -> bool;
}

#[derive(Default)]
struct HelperQueue {
    work: VecDeque<Box<dyn Help>>,
    /// Numbers of helpers: all; idle ones that spin; those that sleep.
    started: usize,
    spinning: usize,
    asleep: usize,
}

/// The next task of an idle helper.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It gives its last help again.
    Again,
    /// It does the work that it claimed.
    Claimed,
    Nothing,
}

/// A run that is under way on the cores, and counts until it is dropped.
pub(crate) struct ActiveRun(());

impl ActiveRun {
    /// Begins a run. The second value is the number of other runs.
    pub fn begin() -> (Self, usize) {
        (Self(()), OF_PROCESS.runs.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        OF_PROCESS.end_run();
    }
}

/// Counts the cores and starts the first helper, so that no run waits for either.
pub(crate) fn start_first_helper() {
    if is_forked_child() {
        return;
    }
    let mut queue = OF_PROCESS.queue.lock();
    if queue.started == 0 {
        OF_PROCESS.bring_one(&mut queue);
    }
}

/// Leaves `work` to the first helper that is free.
pub(super) fn spawn(work: impl Help + 'static) {
    OF_PROCESS.push(Box::new(work));
}

impl Helpers {
    fn new(threads: fn() -> usize, most_spinning: usize) -> Self {
        Self {
            threads,
            queue: Mutex::default(),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
            most_spinning,
        }
    }

    fn push(&'static self, work: Box<dyn Help>) {
        if is_forked_child() {
            return;
        }
        let mut queue = self.queue.lock();
        queue.work.push_back(work);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if queue.spinning < queue.work.len() {
            self.bring_one(&mut queue);
        }
    }

    /// Wakes a helper, or starts one.
    fn bring_one(&'static self, queue: &mut HelperQueue) {
        if queue.asleep > 0 {
            self.changed.notify_one();
        } else if queue.started + 1 < (self.threads)() {
            let thread = thread::Builder::new().name("onetrip-helper".into());
            // Without a thread, the owner of the work does it all.
            queue.started += usize::from(thread.spawn(|| self.help()).is_ok());
        }
    }

    fn end_run(&self) {
        self.runs.fetch_sub(1, Ordering::Relaxed);
        if self.waiting.load(Ordering::Relaxed) > 0 && !is_forked_child() {
            // A helper that saw this run sleeps now, or sees that it ended.
            drop(self.queue.lock());
            self.changed.notify_one();
        }
    }

    /// Gives help as work comes, and never returns.
    fn help(&'static self) {
        let mut last: Option<Box<dyn Help>> = None;
        let mut queue = self.queue.lock();
        loop {
            let busy = queue.started - queue.asleep - queue.spinning - 1;
            let is_free = busy + self.runs.load(Ordering::Relaxed).max(1) < (self.threads)();
            let mut next = if is_free && self.claim() { Next::Claimed } else { Next::Nothing };
            if is_free
                && next == Next::Nothing
                && queue.spinning < self.most_spinning
                && self.is_single()
            {
                queue.spinning += 1;
                drop(queue);
                next = self.spin(last.as_deref());
                queue = self.queue.lock();
                queue.spinning -= 1;
            }
            match next {
                Next::Claimed => last = queue.work.pop_front(),
                Next::Again => {
                    // Work that came meanwhile was left to this thread, which helps its last team again.
                    if self.waiting.load(Ordering::Relaxed) > 0 {
                        self.bring_one(&mut queue);
                    }
                }
                // If there is work, it was left to this thread, which looks again.
                Next::Nothing if !is_free || self.waiting.load(Ordering::Relaxed) == 0 => {
                    last = None;
                    queue.asleep += 1;
                    queue = self.changed.wait(queue);
                    queue.asleep -= 1;
                    continue;
                }
                Next::Nothing => continue,
            }
            drop(queue);
            last.iter_mut().for_each(|help| help.give());
            queue = self.queue.lock();
        }
    }

    /// Claims a piece of work, if there is one. The queue then holds a piece for this thread.
    fn claim(&self) -> bool {
        let one_less = |waiting: usize| waiting.checked_sub(1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Spins for the `last` help to be wanted again, and for other work, which it claims. It does so for a short time,
    /// while there is at most one run.
    fn spin(&self, last: Option<&dyn Help>) -> Next {
        let has_work = || self.waiting.load(Ordering::Relaxed) > 0;
        let ended = || has_work() || !self.is_single();
        loop {
            let is_wanted = match last {
                Some(last) => last.is_wanted_soon(&ended),
                None => {
                    comes_soon(ended);
                    false
                }
            };
            if is_wanted {
                return Next::Again;
            }
            if !has_work() {
                return Next::Nothing;
            }
            if self.claim() {
                return Next::Claimed;
            }
        }
    }

    /// Returns whether there is at most one run. Several have work for all threads.
    fn is_single(&self) -> bool {
        self.runs.load(Ordering::Relaxed) <= 1
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;

    impl<F: Fn() + Send> Help for F {
        fn give(&mut self) {
            self();
        }

        fn is_wanted_soon(&self, ended: &dyn Fn() -> bool) -> bool {
            comes_soon(ended);
            false
        }
    }

    fn helpers(threads: fn() -> usize) -> &'static Helpers {
        Box::leak(Box::new(Helpers::new(threads, 1)))
    }

    fn started(helpers: &Helpers) -> [usize; 2] {
        let queue = helpers.queue.lock();
        [queue.started, queue.work.len()]
    }

    #[test]
    fn helpers_that_spin_or_sleep_do_all_work() {
        for threads in [|| 2, || 4] {
            let helpers = helpers(threads);
            for round in 0..if cfg!(miri) { 4 } else { 20 } {
                let (sender, done) = mpsc::channel();
                for piece in 0..8 {
                    let sender = sender.clone();
                    helpers.push(Box::new(move || sender.send(piece).expect("the test waits")));
                }
                drop(sender);
                let mut done: Vec<_> = done.iter().collect();
                done.sort_unstable();
                assert_eq!(done, [0, 1, 2, 3, 4, 5, 6, 7], "round {round}");
                // Every other round finds all helpers asleep.
                let all_sleep = || {
                    let queue = helpers.queue.lock();
                    queue.asleep == queue.started
                };
                while round % 2 == 0 && !all_sleep() {
                    thread::yield_now();
                }
            }
            assert!(started(helpers)[0] < threads());
        }
    }

    /// Help that is wanted again as often as `more` says.
    struct Again {
        more: Arc<AtomicUsize>,
        given: mpsc::Sender<()>,
    }

    impl Help for Again {
        fn give(&mut self) {
            self.given.send(()).expect("the test waits");
        }

        fn is_wanted_soon(&self, ended: &dyn Fn() -> bool) -> bool {
            loop {
                let one_less = |more: usize| more.checked_sub(1);
                let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
                if self.more.fetch_update(set, fetch, one_less).is_ok() {
                    return true;
                }
                if ended() {
                    return false;
                }
                thread::yield_now();
            }
        }
    }

    #[test]
    fn help_is_given_again_until_other_work_comes_or_several_runs_are_under_way() {
        let helpers = helpers(|| 2);
        for ends_by_work in [true, false] {
            let more = Arc::new(AtomicUsize::new(3));
            let (given, calls) = mpsc::channel();
            helpers.push(Box::new(Again { more: Arc::clone(&more), given: given.clone() }));
            (0..4).for_each(|_| calls.recv().expect("help was given"));
            more.store(1, Ordering::Relaxed);
            calls.recv().expect("help was given again");
            if ends_by_work {
                helpers.push(Box::new(move || given.send(()).expect("the test waits")));
                calls.recv().expect("other work is done");
            } else {
                drop(given);
                helpers.runs.store(2, Ordering::Relaxed);
            }
            // The help is dropped, and its sender with it.
            assert!(calls.recv().is_err());
            helpers.runs.store(0, Ordering::Relaxed);
        }
    }

    /// Help that is wanted again once other work waits, and is then given until that is done.
    struct Long {
        helpers: &'static Helpers,
        times: usize,
        begun: mpsc::Sender<()>,
        other_done: Arc<AtomicUsize>,
    }

    impl Help for Long {
        fn give(&mut self) {
            self.times += 1;
            self.begun.send(()).expect("the test waits");
            while self.times == 2 && self.other_done.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
        }

        fn is_wanted_soon(&self, _: &dyn Fn() -> bool) -> bool {
            while self.times == 1 && self.helpers.waiting.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            self.times == 1
        }
    }

    #[test]
    fn work_that_was_left_to_a_helper_of_a_team_is_done_by_another() {
        let helpers = helpers(|| 3);
        let (begun, begins) = mpsc::channel();
        let other_done = Arc::new(AtomicUsize::new(0));
        let done = Arc::clone(&other_done);
        helpers.push(Box::new(Long { helpers, times: 0, begun, other_done }));
        begins.recv().expect("help was given");
        while helpers.queue.lock().spinning == 0 {
            thread::yield_now();
        }
        helpers.push(Box::new(move || done.store(1, Ordering::Relaxed)));
        begins.recv().expect("help was given again");
        // The helper is dropped with its sender once the other work was done.
        assert!(begins.recv().is_err());
    }

    #[test]
    fn work_from_many_threads_at_once_is_done_once() {
        const PIECES: usize = if cfg!(miri) { 10 } else { 50 };
        let helpers = helpers(|| 4);
        let (sender, done) = mpsc::channel();
        thread::scope(|scope| {
            for giver in 0..4 {
                let sender = sender.clone();
                scope.spawn(move || {
                    for piece in 0..PIECES {
                        let sender = sender.clone();
                        let piece = PIECES * giver + piece;
                        let work = move || sender.send(piece).expect("the test waits");
                        helpers.push(Box::new(work));
                    }
                });
            }
        });
        drop(sender);
        let mut done: Vec<_> = done.iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..4 * PIECES).collect::<Vec<_>>());
    }

    #[test]
    fn helpers_leave_the_cores_to_as_many_runs_and_come_when_one_ends() {
        let helpers = helpers(|| 3);
        helpers.runs.store(3, Ordering::Relaxed);
        let (sender, done) = mpsc::channel();
        helpers.push(Box::new(move || sender.send(()).expect("the test waits")));
        assert!(done.recv_timeout(Duration::from_millis(5)).is_err());
        assert_eq!(started(helpers), [1, 1]);
        helpers.end_run();
        done.recv().expect("a helper came");
    }

    #[test]
    fn one_thread_needs_no_helper() {
        let helpers = helpers(|| 1);
        helpers.push(Box::new(|| ()));
        assert_eq!(started(helpers), [0, 1]);
    }
}
