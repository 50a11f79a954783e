//! The process: whether it is a child of `fork`, which has none of its parent's threads.

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

/// Whether this process was forked after [`watch_forks`]: then no thread does what is handed over to others.
pub(crate) fn is_forked_child() -> bool {
    #[cfg(target_os = "linux")]
    return forks::is_child();
    #[cfg(not(target_os = "linux"))]
    false
}
