//! What drivers do on threads of this crate, and the end of the process: a driver that is at work while it is unloaded
//! crashes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::DeviceError;
#[cfg(target_os = "linux")]
use crate::exec::gpu::driver::pin_libraries;

/// How long the end of the process waits for what is under way: some drivers take forever.
const PATIENCE: Duration = Duration::from_secs(2);

static OF_PROCESS: ExitGuard = ExitGuard::new();

/// Between drivers at work and the end of the process.
pub(crate) struct ExitGuard {
    /// [`ONE`] for each who passes, and [`WORK`] for each of them that is at work; odd when nobody else may be.
    passing: AtomicUsize,
    /// When it was shut first. Several handlers of one end shut it, which have their patience together.
    shut_first: OnceLock<Instant>,
}

const SHUT: usize = 1;
const ONE: usize = 2;
const WORK: usize = 1 << (usize::BITS / 2);

fn is_open(passing: usize) -> bool {
    passing & SHUT == 0
}

impl ExitGuard {
    pub const fn new() -> Self {
        Self { passing: AtomicUsize::new(0), shut_first: OnceLock::new() }
    }

    /// The gate that is shut when the process ends in order.
    pub fn of_process() -> &'static Self {
        static FIRST: Once = Once::new();
        FIRST.call_once(at_exit);
        at_end_of_main();
        &OF_PROCESS
    }

    /// The right to pass until it is dropped, unless the gate is shut.
    pub fn enter(&self) -> Option<DriverCall<'_>> {
        self.enter_as(ONE, is_open)
    }

    /// As [`enter`](Self::enter), for what others may have to [wait for](Self::attend).
    pub fn begin(&self) -> Option<DriverCall<'_>> {
        self.enter_as(ONE + WORK, is_open)
    }

    /// As [`enter`](Self::enter), and past a gate that is shut as long as somebody is at work: that may not end unless it
    /// is waited for.
    pub fn attend(&self) -> Option<DriverCall<'_>> {
        self.enter_as(ONE, |passing| is_open(passing) || passing >= WORK)
    }

    /// Counts one who passes, if it `may` with those that do. Who may not is never counted: others would take it for one
    /// who is at work.
    fn enter_as(&self, weight: usize, may: impl Fn(usize) -> bool) -> Option<DriverCall<'_>> {
        let enter = |passing| may(passing).then_some(passing + weight);
        let entered = self.passing.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter);
        entered.ok().map(|_| DriverCall { gate: self, weight })
    }

    /// Does `work`, unless the gate is shut.
    pub fn pass<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let _passing = self.enter()?;
        Some(work())
    }

    /// Lets nobody else pass, and waits for those that do: no longer than `patience` after it was shut first.
    pub fn shut(&self, patience: Duration) {
        const LOOK: Duration = Duration::from_micros(200);
        let began = self.shut_first.get_or_init(Instant::now);
        self.passing.fetch_or(SHUT, Ordering::AcqRel);
        while self.passing.load(Ordering::Acquire) > SHUT && began.elapsed() < patience {
            thread::sleep(LOOK);
        }
    }
}

/// Counts one who passes out when it is dropped: also if the work panics.
pub(crate) struct DriverCall<'a> {
    gate: &'a ExitGuard,
    weight: usize,
}

impl Drop for DriverCall<'_> {
    fn drop(&mut self) {
        self.gate.passing.fetch_sub(self.weight, Ordering::Release);
    }
}

/// The right to call a driver, for as long as this is held.
pub(crate) fn pass() -> Result<DriverCall<'static>, DeviceError> {
    OF_PROCESS.enter().ok_or(DeviceError::Ending)
}

/// As [`pass`], to wait for a driver: also while the process ends, as long as one is [at work](enter).
pub(crate) fn attend() -> Result<DriverCall<'static>, DeviceError> {
    OF_PROCESS.attend().ok_or(DeviceError::Ending)
}

/// As [`pass`], for what has the driver load more of itself.
pub(crate) fn enter() -> Result<DriverWork, DeviceError> {
    ExitGuard::of_process().begin().map(DriverWork).ok_or(DeviceError::Ending)
}

/// A driver at work, which the end of the process waits for.
pub(crate) struct DriverWork(#[expect(dead_code, reason = "held")] DriverCall<'static>);

impl Drop for DriverWork {
    /// What the driver has loaded for its work is unloaded before what was registered earlier is done. It loads most
    /// with the first, so that it is enough to register after the first, second, fourth and so on.
    fn drop(&mut self) {
        static DONE: AtomicUsize = AtomicUsize::new(0);
        if (DONE.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
            at_exit();
        }
    }
}

/// Has the gate shut when the main thread, if it is this one, ends the process in order: before anything is unloaded,
/// also what drivers have loaded since. No handler of a process's end runs as early.
#[cfg(target_os = "linux")]
fn at_end_of_main() {
    struct End {
        is_main: bool,
    }

    impl Drop for End {
        fn drop(&mut self) {
            if self.is_main {
                end();
            }
        }
    }

    thread_local!(static END: End = End { is_main: is_main() });
    // Once that is dropped there is nothing left to do.
    let _ = END.try_with(|_| ());
}

#[cfg(target_os = "linux")]
fn is_main() -> bool {
    // SAFETY: it takes nothing and always succeeds.
    let thread = unsafe { libc::gettid() };
    u32::try_from(thread) == Ok(std::process::id())
}

/// Has the gate shut when the process ends in order, whoever ends it, before what was loaded until now is unloaded.
#[cfg(target_os = "linux")]
fn at_exit() {
    extern "C" fn at_end() {
        end();
    }
    // SAFETY: `at_end` is a function of the C interface that stays, and does not unwind: a panic in it would abort.
    unsafe { libc::atexit(at_end) };
}

/// Before anything is unloaded: what this crate has drivers do ends, and what they do by themselves goes on.
#[cfg(target_os = "linux")]
fn end() {
    OF_PROCESS.shut(PATIENCE);
    pin_libraries::keep();
}

/// Drivers that crash while they are unloaded were seen on Linux alone.
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
    fn the_end_waits_for_what_is_under_way_and_lets_nothing_follow() {
        let gate = ExitGuard::new();
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
    fn what_is_at_work_can_be_waited_for_until_it_is_done() {
        let gate = ExitGuard::new();
        let work = [gate.begin().unwrap(), gate.begin().unwrap()];
        gate.shut(Duration::ZERO);
        assert!(gate.enter().is_none() && gate.begin().is_none());
        for work in work {
            assert!(gate.attend().is_some() && gate.attend().is_some());
            drop(work);
        }
        assert!(gate.attend().is_none());
        assert_eq!(gate.passing.load(Ordering::Relaxed), SHUT);
        // Who only waits is not waited for in turn.
        let gate = ExitGuard::new();
        let waiting = [gate.attend().unwrap(), gate.attend().unwrap()];
        gate.shut(Duration::ZERO);
        assert!(gate.attend().is_none());
        drop(waiting);
        assert_eq!(gate.passing.load(Ordering::Relaxed), SHUT);
    }

    #[test]
    fn many_pass_at_once_and_who_panics_leaves_too() {
        let gate = ExitGuard::new();
        assert_eq!(gate.pass(|| gate.pass(|| 5)), Some(Some(5)));
        assert!(catch_unwind(AssertUnwindSafe(|| gate.pass(|| panic!("as it should")))).is_err());
        gate.shut(Duration::from_secs(60));
        assert_eq!(gate.pass(|| 5), None);
    }
}
