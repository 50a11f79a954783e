//! The end of the process waits for calls of drivers, and lets no more begin.
//!
//! Quirk: a driver that works while it is unloaded crashes. Seen with NVIDIA 580.159.04 on an H200 (24 of 24 processes
//! that called `exit` during a first run) and with Mesa's lavapipe (5 of 252), on Linux. Test: `tests/exits.rs`.
//!
//! Quirk: exit handlers run from the last to the first, and a driver registers its own when it loads its compiler. So ours
//! is registered anew after work that may have loaded one, and once more at the end of `main`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::Duration;

#[cfg(target_os = "linux")]
use super::pin_libraries;
use crate::base::clock::Instant;
use crate::error::DeviceError;

/// The end of the process waits this long for calls under way: some drivers never return.
const PATIENCE: Duration = Duration::from_secs(2);

static OF_PROCESS: ExitGuard = ExitGuard::new();

/// Counts the calls of drivers, and lets none begin once it is shut.
pub(super) struct ExitGuard {
    /// [`ONE`] for each call, and [`WORK`] in addition for each that is work; odd once the guard is shut.
    calls: AtomicUsize,
    /// The time at which it was shut first. Several handlers of one end shut it, and share one patience.
    shut_first: OnceLock<Instant>,
}

const SHUT: usize = 1;
const ONE: usize = 2;
const WORK: usize = 1 << (usize::BITS / 2);

fn is_open(calls: usize) -> bool {
    calls & SHUT == 0
}

impl ExitGuard {
    pub const fn new() -> Self {
        Self { calls: AtomicUsize::new(0), shut_first: OnceLock::new() }
    }

    /// The guard of the process. Registers the handlers that shut it when the process ends in order.
    pub fn with_exit_handlers() -> &'static Self {
        static FIRST: Once = Once::new();
        FIRST.call_once(at_exit);
        at_end_of_main();
        &OF_PROCESS
    }

    /// The right to call a driver until it is dropped, unless the guard is shut.
    pub fn enter(&self) -> Option<DriverCall<'_>> {
        self.enter_as(ONE, is_open)
    }

    /// As [`enter`](Self::enter), for work that others may have to [wait for](Self::attend).
    pub fn begin(&self) -> Option<DriverCall<'_>> {
        self.enter_as(ONE + WORK, is_open)
    }

    /// As [`enter`](Self::enter), and after the guard is shut as long as work is under way: that may not end unless
    /// somebody waits for it.
    pub fn attend(&self) -> Option<DriverCall<'_>> {
        self.enter_as(ONE, |calls| is_open(calls) || calls >= WORK)
    }

    /// Counts a call, if it `may` begin beside those under way. A refused call is never counted: others would take it for
    /// work.
    fn enter_as(&self, weight: usize, may: impl Fn(usize) -> bool) -> Option<DriverCall<'_>> {
        let enter = |calls| may(calls).then_some(calls + weight);
        let entered = self.calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter);
        entered.ok().map(|_| DriverCall { guard: self, weight })
    }

    /// Makes `call`, unless the guard is shut.
    pub fn pass<R>(&self, call: impl FnOnce() -> R) -> Option<R> {
        let _call = self.enter()?;
        Some(call())
    }

    /// Lets no more calls begin, and waits for those under way: for at most `patience` since it was shut first.
    pub fn shut(&self, patience: Duration) {
        const LOOK: Duration = Duration::from_micros(200);
        let began = self.shut_first.get_or_init(Instant::now);
        self.calls.fetch_or(SHUT, Ordering::AcqRel);
        while self.calls.load(Ordering::Acquire) > SHUT && began.elapsed() < patience {
            thread::sleep(LOOK);
        }
    }
}

/// A call of a driver, which ends when this is dropped: also if the call panics.
pub(super) struct DriverCall<'a> {
    guard: &'a ExitGuard,
    weight: usize,
}

impl Drop for DriverCall<'_> {
    fn drop(&mut self) {
        self.guard.calls.fetch_sub(self.weight, Ordering::Release);
    }
}

/// The right to call a driver until it is dropped.
pub(super) fn call() -> Result<DriverCall<'static>, DeviceError> {
    OF_PROCESS.enter().ok_or(DeviceError::Ending)
}

/// As [`call`], to wait for a driver: also while the process ends, as long as a driver is at [`work`].
pub(super) fn attend() -> Result<DriverCall<'static>, DeviceError> {
    OF_PROCESS.attend().ok_or(DeviceError::Ending)
}

/// As [`call`], for work in which the driver loads more of itself.
pub(super) fn work() -> Result<DriverWork, DeviceError> {
    ExitGuard::with_exit_handlers().begin().map(DriverWork).ok_or(DeviceError::Ending)
}

/// A driver at work, for which the end of the process waits.
pub(crate) struct DriverWork(#[expect(dead_code, reason = "held")] DriverCall<'static>);

impl Drop for DriverWork {
    /// Handlers of the end run in the reverse order of their registration, and libraries register handlers that unload
    /// them when they are loaded. So ours is registered anew after work that may have loaded libraries. A driver loads
    /// most with its first work, so that the first, second, fourth and so on are enough.
    fn drop(&mut self) {
        static DONE: AtomicUsize = AtomicUsize::new(0);
        if (DONE.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
            at_exit();
        }
    }
}

/// Shuts the guard when the main thread, if it is this one, ends the process in order. No library is unloaded before,
/// not even one that a driver has loaded since. No exit handler runs as early.
#[cfg(target_os = "linux")]
fn at_end_of_main() {
    struct AtThreadEnd {
        is_main: bool,
    }

    impl Drop for AtThreadEnd {
        fn drop(&mut self) {
            if self.is_main {
                end();
            }
        }
    }

    thread_local!(static END: AtThreadEnd = AtThreadEnd { is_main: is_main() });
    // It fails once the thread has dropped its locals, and then the guard is shut already.
    let _ = END.try_with(|_| ());
}

#[cfg(target_os = "linux")]
fn is_main() -> bool {
    // SAFETY: it takes nothing and always succeeds.
    let thread = unsafe { libc::gettid() };
    u32::try_from(thread) == Ok(std::process::id())
}

/// Shuts the guard when any thread ends the process in order, before the libraries loaded until now are unloaded.
#[cfg(target_os = "linux")]
fn at_exit() {
    extern "C" fn at_end() {
        end();
    }
    // SAFETY: `at_end` is a function of the C interface that stays, and does not unwind: a panic in it would abort.
    unsafe { libc::atexit(at_end) };
}

/// Ends the calls of this crate, and keeps libraries loaded for the threads that drivers have of their own.
#[cfg(target_os = "linux")]
fn end() {
    OF_PROCESS.shut(PATIENCE);
    pin_libraries::pin();
}

#[cfg(not(target_os = "linux"))]
fn at_exit() {}

#[cfg(not(target_os = "linux"))]
fn at_end_of_main() {}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn the_end_waits_for_calls_under_way_and_lets_none_follow() {
        let guard = ExitGuard::new();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let guard = &guard;
            let working = scope.spawn(move || {
                let first = guard.pass(|| {
                    begin.send(()).unwrap();
                    ended.recv().unwrap();
                });
                (first, guard.pass(|| ()))
            });
            begun.recv().unwrap();
            // Its patience has an end.
            guard.shut(Duration::from_millis(1));
            let shutting = scope.spawn(|| guard.shut(Duration::from_secs(60)));
            thread::sleep(Duration::from_millis(5));
            assert!(!shutting.is_finished());
            end.send(()).unwrap();
            shutting.join().unwrap();
            assert_eq!(working.join().unwrap(), (Some(()), None));
        });
    }

    #[test]
    fn work_can_be_waited_for_until_it_is_done() {
        let guard = ExitGuard::new();
        let work = [guard.begin().unwrap(), guard.begin().unwrap()];
        guard.shut(Duration::ZERO);
        assert!(guard.enter().is_none() && guard.begin().is_none());
        for work in work {
            assert!(guard.attend().is_some() && guard.attend().is_some());
            drop(work);
        }
        assert!(guard.attend().is_none());
        assert_eq!(guard.calls.load(Ordering::Relaxed), SHUT);
        // A call that only waits is not waited for in turn.
        let guard = ExitGuard::new();
        let waiting = [guard.attend().unwrap(), guard.attend().unwrap()];
        guard.shut(Duration::ZERO);
        assert!(guard.attend().is_none());
        drop(waiting);
        assert_eq!(guard.calls.load(Ordering::Relaxed), SHUT);
    }

    #[test]
    fn many_calls_pass_at_once_and_one_that_panics_ends_too() {
        let guard = ExitGuard::new();
        assert_eq!(guard.pass(|| guard.pass(|| 5)), Some(Some(5)));
        assert!(catch_unwind(AssertUnwindSafe(|| guard.pass(|| panic!("as it should")))).is_err());
        guard.shut(Duration::from_secs(60));
        assert_eq!(guard.pass(|| 5), None);
    }
}
