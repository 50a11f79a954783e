//! Flags of a thread, set during a call.

use std::cell::Cell;
use std::thread::LocalKey;

thread_local!(static WAITS: Cell<bool> = const { Cell::new(false) });

/// Returns the result of `wait`, which does nothing on this thread but wait for a run. The run may be done on this
/// thread ([`waits_here`]).
#[cfg(any(feature = "blocking", all(test, feature = "gpu")))]
pub(crate) fn waiting<R>(wait: impl FnOnce() -> R) -> R {
    while_set(&WAITS, wait)
}

/// Returns whether this thread does nothing but wait for a run or a compilation.
pub(crate) fn waits_here() -> bool {
    WAITS.get()
}

/// Returns the result of `call`, during which `flag` is set on this thread. Afterwards the flag has its former value,
/// after a panic too.
pub(crate) fn while_set<R>(flag: &'static LocalKey<Cell<bool>>, call: impl FnOnce() -> R) -> R {
    struct Restore(&'static LocalKey<Cell<bool>>, bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }

    let _restore = Restore(flag, flag.replace(true));
    call()
}
