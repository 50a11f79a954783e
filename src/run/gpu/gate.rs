//! What drivers do on threads of this crate, and the end of the process: a driver that is at work while it is unloaded
//! crashes.

use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// How long the end of the process waits for what is under way: some drivers take forever.
const PATIENCE: Duration = Duration::from_secs(2);

static OF_PROCESS: Gate = Gate::new();

/// Between drivers at work and the end of the process.
pub(super) struct Gate {
    passing: Mutex<Passing>,
    passed: Condvar,
}

struct Passing {
    /// How many are at work.
    busy: usize,
    /// Whether nobody else may be.
    shut: bool,
}

impl Gate {
    pub const fn new() -> Self {
        let passing = Mutex::new(Passing { busy: 0, shut: false });
        Self { passing, passed: Condvar::new() }
    }

    /// The gate that is shut when the process ends in order.
    pub fn of_process() -> &'static Self {
        static FIRST: Once = Once::new();
        FIRST.call_once(at_exit);
        &OF_PROCESS
    }

    fn passing(&self) -> MutexGuard<'_, Passing> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work`, unless the gate is shut.
    pub fn pass<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let mut passing = self.passing();
        if passing.shut {
            return None;
        }
        passing.busy += 1;
        drop(passing);
        let _leaving = Leaving(self);
        Some(work())
    }

    /// Lets nobody else pass, and waits for those that do.
    pub fn shut(&self, patience: Duration) {
        let mut passing = self.passing();
        passing.shut = true;
        drop(self.passed.wait_timeout_while(passing, patience, |it| it.busy > 0));
    }
}

/// Counts one who passes out when it is dropped: also if the work panics.
struct Leaving<'a>(&'a Gate);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.passing().busy -= 1;
        self.0.passed.notify_all();
    }
}

/// After the first call: what drivers load with their first kernel is unloaded before what was registered earlier is
/// done.
pub(super) fn loaded() {
    static FIRST: Once = Once::new();
    FIRST.call_once(at_exit);
}

/// Has the gate shut when the process ends in order, before what was loaded until now is unloaded.
#[cfg(target_os = "linux")]
fn at_exit() {
    extern "C" fn shut() {
        OF_PROCESS.shut(PATIENCE);
    }
    // SAFETY: `shut` is a function of the C interface that stays, and does not unwind: a panic in it would abort.
    unsafe { libc::atexit(shut) };
}

/// Drivers that crash while they are unloaded were seen on Linux alone.
#[cfg(not(target_os = "linux"))]
fn at_exit() {}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn the_end_waits_for_what_is_under_way_and_lets_nothing_follow() {
        let gate = Gate::new();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let gate = &gate;
            let working = scope.spawn(move || {
                let first = gate.pass(|| {
                    begin.send(()).unwrap();
                    ended.recv().unwrap();
                });
                (first, gate.pass(|| ()))
            });
            begun.recv().unwrap();
            // Its patience has an end.
            gate.shut(Duration::from_millis(1));
            let shutting = scope.spawn(|| gate.shut(Duration::from_secs(60)));
            thread::sleep(Duration::from_millis(5));
            assert!(!shutting.is_finished());
            end.send(()).unwrap();
            shutting.join().unwrap();
            assert_eq!(working.join().unwrap(), (Some(()), None));
        });
    }

    #[test]
    fn many_pass_at_once_and_who_panics_leaves_too() {
        let gate = Gate::new();
        assert_eq!(gate.pass(|| gate.pass(|| 5)), Some(Some(5)));
        assert!(catch_unwind(AssertUnwindSafe(|| gate.pass(|| panic!("as it should")))).is_err());
        gate.shut(Duration::from_secs(60));
        assert_eq!(gate.pass(|| 5), None);
    }
}
