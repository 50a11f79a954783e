//! Short calls of drivers never wait for long ones.
//!
//! Quirk: while a driver opens or closes a device or makes a pipeline, it may keep every other call of the process
//! waiting. Seen with NVIDIA 580.159.04 on an H200: submissions and polls took 20 ms and more, polls after losses up to
//! 72 ms. So a thread that has other futures to poll makes no call while a long one is under way, and no long call begins
//! while short ones are. Tests: `runs_go_on_while_a_driver_takes_long` in `exec/gpu/tests/runs.rs`, and below.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use futures_timer::Delay;

use crate::base::clock::Instant;
use crate::base::sync::Mutex;
use crate::exec::threads::{BoxedWork, begin_on, waits_here};

/// A long call waits this long for short ones to end: one may be in a driver that hangs.
const PATIENCE: Duration = Duration::from_millis(20);
/// Short calls go elsewhere for this long: a call that takes longer may hang for good.
const LONGEST: Duration = Duration::from_secs(2);

static OF_PROCESS: DriverLock = DriverLock::new();

/// Short calls beside each other, or long ones beside each other: neither kind begins while the other is under way.
struct DriverLock {
    /// [`LONG`] for each long call under way, and 1 for each short one.
    under_way: AtomicU64,
    /// The time at which the last long call began.
    began: Mutex<Option<Instant>>,
}

const LONG: u64 = 1 << 32;

impl DriverLock {
    const fn new() -> Self {
        Self { under_way: AtomicU64::new(0), began: Mutex::new(None) }
    }

    /// The right to make short calls, unless a long one that began within `longest` is under way.
    fn short(&self, longest: Duration) -> Option<CallGuard<'_>> {
        let enter = |under_way| (under_way < LONG).then_some(under_way + 1);
        let entered = self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter);
        if entered.is_err() {
            let hangs = self.began.lock().is_some_and(|began| began.elapsed() >= longest);
            if !hangs {
                return None;
            }
            self.under_way.fetch_add(1, Ordering::AcqRel);
        }
        Some(CallGuard { lock: self, weight: 1 })
    }

    /// The right to make a long call, once the short ones have ended, or `patience` has.
    fn long(&self, patience: Duration) -> CallGuard<'_> {
        const LOOK: Duration = Duration::from_micros(50);
        *self.began.lock() = Some(Instant::now());
        self.under_way.fetch_add(LONG, Ordering::AcqRel);
        let held = CallGuard { lock: self, weight: LONG };
        let mut waited = Duration::ZERO;
        while !self.under_way.load(Ordering::Acquire).is_multiple_of(LONG) && waited < patience {
            thread::sleep(LOOK);
            waited += LOOK;
        }
        held
    }
}

/// A call under way, which ends when this is dropped.
pub(crate) struct CallGuard<'a> {
    lock: &'a DriverLock,
    weight: u64,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.lock.under_way.fetch_sub(self.weight, Ordering::Release);
    }
}

/// The right to make short calls on this thread until it is dropped, unless they might have to wait and the thread has
/// other futures to poll.
pub(super) fn short() -> Option<impl Sized> {
    if waits_here() || cfg!(target_arch = "wasm32") {
        return Some(None);
    }
    OF_PROCESS.short(LONGEST).map(Some)
}

/// The result of short `calls`; `None` if they might have to wait, and this thread has other futures to poll.
pub(crate) fn try_short<R>(calls: impl FnOnce() -> R) -> Option<R> {
    let _short = short()?;
    Some(calls())
}

/// Begins a long call, which is under way until the guard is dropped.
pub(crate) fn long() -> CallGuard<'static> {
    OF_PROCESS.long(PATIENCE)
}

/// The result of short `calls`, made on this thread if they need not wait for a long call, else on a thread that does
/// nothing else. If the future is dropped before that thread is free, the calls are not made.
pub(crate) async fn in_turn<R: Send + 'static>(calls: impl FnOnce() -> R + Send + 'static) -> R {
    if let Some(_short) = short() {
        return calls();
    }
    let Some(caller) = caller() else { return calls() };
    begin_on(|work| drop(caller.send(work)), calls).await
}

/// The result of short `calls`, made by this thread in the poll that ends the future. The future waits until no long
/// call is under way, but not for long. If it is dropped before, the calls are not made.
pub(crate) async fn in_last_poll<R>(calls: impl FnOnce() -> R) -> R {
    const LOOK: Duration = Duration::from_millis(1);
    const LOOKS: usize = 100;
    for _ in 0..LOOKS {
        if let Some(_short) = short() {
            return calls();
        }
        Delay::new(LOOK).await;
    }
    calls()
}

/// The thread that makes short calls while a long one is under way; `None` if it cannot be started. It never ends, since a
/// driver may hang where a thread that called it ends.
fn caller() -> Option<&'static Sender<BoxedWork>> {
    static CALLER: OnceLock<Option<Sender<BoxedWork>>> = OnceLock::new();
    let start = || {
        let (sender, calls) = mpsc::channel::<BoxedWork>();
        let thread = thread::Builder::new().name("onetrip-call".into());
        thread.spawn(move || calls.into_iter().for_each(|call| call())).ok()?;
        Some(sender)
    };
    CALLER.get_or_init(start).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::threads;

    const NONE: Duration = Duration::ZERO;
    const ENDLESS: Duration = Duration::from_secs(60);

    #[test]
    fn no_short_call_begins_while_a_long_one_is_under_way() {
        let lock = DriverLock::new();
        let short = [lock.short(NONE).unwrap(), lock.short(NONE).unwrap()];
        drop(short);
        let long = [lock.long(ENDLESS), lock.long(ENDLESS)];
        for held in long {
            assert!(lock.short(ENDLESS).is_none());
            // A call that hangs is not waited for.
            assert!(lock.short(NONE).is_some());
            drop(held);
        }
        assert!(lock.short(ENDLESS).is_some());
        assert_eq!(lock.under_way.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_long_call_waits_for_short_ones_and_lets_no_more_begin() {
        let lock = DriverLock::new();
        let short = lock.short(ENDLESS).unwrap();
        // Its patience has an end.
        drop(lock.long(NONE));
        thread::scope(|scope| {
            let long = scope.spawn(|| drop(lock.long(ENDLESS)));
            while lock.short(ENDLESS).is_some() {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(5));
            assert!(!long.is_finished());
            drop(short);
            long.join().unwrap();
        });
        assert!(lock.short(ENDLESS).is_some());
    }

    #[test]
    fn calls_are_made_elsewhere_while_a_long_one_is_under_way() {
        let call = || thread::current().name().map(str::to_owned);
        let here = call();
        let long = long();
        let elsewhere = Some("onetrip-call".to_owned());
        assert_eq!(pollster::block_on(in_turn(call)), elsewhere);
        assert!(
            std::panic::catch_unwind(|| pollster::block_on(in_turn(|| panic!("as it should"))))
                .is_err()
        );
        assert_eq!(pollster::block_on(in_turn(call)), elsewhere);
        threads::waiting(|| assert_eq!(pollster::block_on(in_turn(call)), here));
        drop(long);
    }
}
