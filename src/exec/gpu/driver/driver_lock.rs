//! Whose turn it is with the drivers. While a driver opens or closes a device or compiles, it may keep every other call
//! of the process waiting, for tens of milliseconds. So a thread that has other futures to poll does not call drivers
//! while a call that takes long is under way, and no such call begins while short ones are.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use futures_timer::Delay;

use crate::base::sync::{Mutex, MutexGuard};
use crate::exec::gpu::Gpu;
use crate::exec::threads::{Work, begin_on, waits_here};

/// How long what takes long waits for short calls to end: one may be at a driver that hangs.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long short calls are not made where they are asked for: what takes longer may hang, and for good.
const LONGEST: Duration = Duration::from_secs(2);

static OF_PROCESS: DriverLock = DriverLock::new();

/// Calls that are short, and calls that take long: neither kind begins while one of the other is under way.
struct DriverLock {
    /// [`LONG`] for each that takes long, and 1 for each that is short.
    under_way: AtomicU64,
    /// When the last that takes long began.
    began: Mutex<Option<Instant>>,
}

const LONG: u64 = 1 << 32;

impl DriverLock {
    const fn new() -> Self {
        Self { under_way: AtomicU64::new(0), began: Mutex::new(None) }
    }

    fn began(&self) -> MutexGuard<'_, Option<Instant>> {
        self.began.lock()
    }

    /// The turn for calls that are short, unless something began within `longest` that is not done yet.
    fn short(&self, longest: Duration) -> Option<Turn<'_>> {
        let enter = |under_way| (under_way < LONG).then_some(under_way + 1);
        let entered = self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter);
        if entered.is_err() {
            let hangs = self.began().is_some_and(|began| began.elapsed() >= longest);
            if !hangs {
                return None;
            }
            self.under_way.fetch_add(1, Ordering::AcqRel);
        }
        Some(Turn { turns: self, weight: 1 })
    }

    /// The turn for a call that takes long, once the short ones have ended, or `patience` has.
    fn long(&self, patience: Duration) -> Turn<'_> {
        const LOOK: Duration = Duration::from_micros(50);
        if !cfg!(target_arch = "wasm32") {
            *self.began() = Some(Instant::now());
        }
        self.under_way.fetch_add(LONG, Ordering::AcqRel);
        let turn = Turn { turns: self, weight: LONG };
        let mut waited = Duration::ZERO;
        while !self.under_way.load(Ordering::Acquire).is_multiple_of(LONG) && waited < patience {
            thread::sleep(LOOK);
            waited += LOOK;
        }
        turn
    }
}

/// A turn, which ends when this is dropped.
struct Turn<'a> {
    turns: &'a DriverLock,
    weight: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.under_way.fetch_sub(self.weight, Ordering::Release);
    }
}

/// The right to make short calls here, until it is dropped.
pub(crate) struct Short(#[expect(dead_code, reason = "held")] Option<Turn<'static>>);

/// The right to make short calls on this thread, unless they might have to wait and the thread has other things to do.
pub(crate) fn short() -> Option<Short> {
    if waits_here() || cfg!(target_arch = "wasm32") {
        return Some(Short(None));
    }
    OF_PROCESS.short(LONGEST).map(|turn| Short(Some(turn)))
}

/// A call that takes long, until it is dropped.
pub(crate) struct Long(#[expect(dead_code, reason = "held")] Turn<'static>);

/// Begins a call that takes long.
pub(crate) fn long() -> Long {
    Long(OF_PROCESS.long(PATIENCE))
}

/// The thread that makes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// It has other futures to poll.
    AsyncTask,
    /// It may wait for a driver.
    Worker,
}

/// The result of `calls`, made here if they need not wait for a driver, else on a thread that does nothing else. If the
/// future is dropped before that thread was free, nothing is done.
pub(crate) async fn in_turn<R: Send + 'static>(
    calls: impl FnOnce(Caller) -> R + Send + 'static,
) -> R {
    if let Some(_turn) = short() {
        return calls(Caller::AsyncTask);
    }
    let Some(caller) = caller() else { return calls(Caller::Worker) };
    begin_on(|work| drop(caller.send(work)), || calls(Caller::Worker)).await
}

impl Gpu {
    /// The result of `calls`, which are short: made by another thread where they might have to wait for a driver that
    /// takes long. If the future is dropped before it was free, nothing is done.
    pub async fn in_turn<R: Send + 'static>(calls: impl FnOnce() -> R + Send + 'static) -> R {
        in_turn(|_| calls()).await
    }

    /// As [`in_turn`](Self::in_turn), by this thread, which comes back for a while until nothing takes long: in the poll
    /// that ends the future. If it is dropped before, nothing is done.
    pub async fn at_the_end<R>(calls: impl FnOnce() -> R) -> R {
        const LOOK: Duration = Duration::from_millis(1);
        const LOOKS: usize = 100;
        for _ in 0..LOOKS {
            if let Some(_turn) = short() {
                return calls();
            }
            Delay::new(LOOK).await;
        }
        calls()
    }

    /// As a driver that takes long, until what it returns is dropped.
    #[cfg(test)]
    pub fn take_long() -> impl Sized {
        long()
    }
}

/// The thread that calls drivers while something takes long; `None` if it cannot be started. It stays, since a driver may
/// hang where a thread that used it ends.
fn caller() -> Option<&'static Sender<Work>> {
    static CALLER: OnceLock<Option<Sender<Work>>> = OnceLock::new();
    let start = || {
        let (sender, calls) = mpsc::channel::<Work>();
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
    fn what_is_short_may_not_begin_while_something_takes_long() {
        let turns = DriverLock::new();
        let short = [turns.short(NONE).unwrap(), turns.short(NONE).unwrap()];
        drop(short);
        let long = [turns.long(ENDLESS), turns.long(ENDLESS)];
        for turn in long {
            assert!(turns.short(ENDLESS).is_none());
            // What hangs is not waited for.
            assert!(turns.short(NONE).is_some());
            drop(turn);
        }
        assert!(turns.short(ENDLESS).is_some());
        assert_eq!(turns.under_way.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_takes_long_waits_for_what_is_short_and_lets_no_more_begin() {
        let turns = DriverLock::new();
        let short = turns.short(ENDLESS).unwrap();
        // Its patience has an end.
        drop(turns.long(NONE));
        thread::scope(|scope| {
            let long = scope.spawn(|| drop(turns.long(ENDLESS)));
            while turns.short(ENDLESS).is_some() {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(5));
            assert!(!long.is_finished());
            drop(short);
            long.join().unwrap();
        });
        assert!(turns.short(ENDLESS).is_some());
    }

    #[test]
    fn calls_are_made_elsewhere_while_something_takes_long() {
        let call = |on| (on, thread::current().name().map(str::to_owned));
        let here = thread::current().name().map(str::to_owned);
        let long = long();
        let elsewhere = (Caller::Worker, Some("onetrip-call".to_owned()));
        assert_eq!(pollster::block_on(in_turn(call)), elsewhere);
        assert!(
            std::panic::catch_unwind(|| pollster::block_on(in_turn(|_| panic!("as it should"))))
                .is_err()
        );
        assert_eq!(pollster::block_on(in_turn(call)), elsewhere);
        threads::waiting(|| {
            assert_eq!(pollster::block_on(in_turn(call)), (Caller::AsyncTask, here))
        });
        drop(long);
    }
}
