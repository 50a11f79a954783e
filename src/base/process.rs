//! The process: children of `fork`, which have none of its threads, and panics in functions of the user.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(target_os = "linux")]
mod forks {
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering};

    static IS_CHILD: AtomicBool = AtomicBool::new(false);

    extern "C" fn in_child() {
        IS_CHILD.store(true, Ordering::Relaxed);
    }

    pub fn watch() {
        static ONCE: Once = Once::new();
        // SAFETY: the handler stores to a static atomic, which is allowed in a child of `fork`; the library takes the
        // handler back where it is unloaded. A refusal for want of memory leaves the child unmarked.
        ONCE.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) });
    }

    pub fn is_child() -> bool {
        IS_CHILD.load(Ordering::Relaxed)
    }
}

/// Marks children that this process forks from now on.
pub(crate) fn watch_forks() {
    #[cfg(target_os = "linux")]
    forks::watch();
}

/// True if this process was forked after [`watch_forks`]: then no thread does work that is handed over.
pub(crate) fn is_forked_child() -> bool {
    #[cfg(target_os = "linux")]
    return forks::is_child();
    #[cfg(not(target_os = "linux"))]
    false
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
