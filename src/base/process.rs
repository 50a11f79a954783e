//! The process: children of `fork`, which have none of its threads, and panics in functions of the user.
//!
//! A child has the locks of its parent as they were at the fork. One that another thread held stays locked for ever. So
//! a thread takes locks that a child waits for only while it holds a [`ForkGuard`]. A child that was forked while
//! another thread held one gets none. A child does not wait for the lock of the host's pool of memory.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

/// Number of guards that threads of this process hold.
static GUARDS: AtomicUsize = AtomicUsize::new(0);
/// True while this process forks: no thread gets a guard meanwhile.
static FORKS: AtomicBool = AtomicBool::new(false);
/// True if the last fork came while a thread held a guard.
static FORKED_INSIDE: AtomicBool = AtomicBool::new(false);
static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// True in a child that may find locks that nobody unlocks.
static HAS_DEAD_LOCKS: AtomicBool = AtomicBool::new(false);

#[cfg(target_os = "linux")]
mod forks {
    use super::*;

    extern "C" fn before() {
        FORKS.store(true, SeqCst);
        FORKED_INSIDE.store(GUARDS.load(SeqCst) > 0, SeqCst);
    }

    extern "C" fn in_parent() {
        FORKS.store(false, SeqCst);
    }

    extern "C" fn in_child() {
        FORKS.store(false, SeqCst);
        IS_CHILD.store(true, SeqCst);
        HAS_DEAD_LOCKS.fetch_or(FORKED_INSIDE.load(SeqCst), SeqCst);
    }

    pub fn watch() {
        static ONCE: std::sync::Once = std::sync::Once::new();
        let (before, parent, child) =
            (Some(before as _), Some(in_parent as _), Some(in_child as _));
        // SAFETY: the handlers access static atomics alone, which is allowed in a child of `fork`; the library takes
        // them back where it is unloaded. A refusal for want of memory leaves the child unmarked.
        ONCE.call_once(|| _ = unsafe { libc::pthread_atfork(before, parent, child) });
    }
}

/// Marks children that this process forks from now on.
pub(crate) fn watch_forks() {
    #[cfg(target_os = "linux")]
    forks::watch();
}

/// True if this process was forked after [`watch_forks`]: then no thread does work that is handed over.
pub(crate) fn is_forked_child() -> bool {
    IS_CHILD.load(SeqCst)
}

/// A thread holds this guard while it may hold locks that a forked child waits for.
#[derive(Debug)]
pub(crate) struct ForkGuard(());

impl ForkGuard {
    /// A guard, after a fork under way; `None` in a child whose locks may be held by threads that it does not have.
    pub fn begin() -> Option<Self> {
        loop {
            GUARDS.fetch_add(1, SeqCst);
            let guard = Self(());
            if HAS_DEAD_LOCKS.load(SeqCst) {
                return None;
            }
            if !FORKS.load(SeqCst) {
                return Some(guard);
            }
            drop(guard);
            thread::yield_now();
        }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        GUARDS.fetch_sub(1, SeqCst);
    }
}

/// The result of `call`, or the message of its panic. After a panic, nothing that it may have left half done must be used.
pub(crate) fn caught<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| message(&*panic))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_its_message() {
        assert_eq!(caught(|| 5), Ok(5));
        assert_eq!(caught(|| panic!("as it should")), Err::<(), _>("as it should".into()));
        let two = 2;
        assert_eq!(caught(|| panic!("{two}")), Err::<(), _>("2".into()));
        assert_eq!(caught(|| std::panic::panic_any(3)), Err::<(), _>("no message".into()));
    }
}
