//! In place of the crate's `src/sync.rs`.

pub use std::sync::PoisonError;

pub use loom::hint;
pub use loom::sync::atomic::{AtomicUsize, Ordering};
pub use loom::sync::{Arc, Mutex, MutexGuard};

/// Loom's own `unpark` tells the other thread all that this one did, also where that does not park.
pub mod thread {
    use loom::sync::{Arc, Notify};

    loom::thread_local! {
        static TOKEN: Arc<Notify> = Arc::new(Notify::new());
    }

    pub struct Thread(Arc<Notify>);

    pub fn current() -> Thread {
        Thread(TOKEN.with(Arc::clone))
    }

    pub fn park() {
        TOKEN.with(Arc::clone).wait();
    }

    impl Thread {
        pub fn unpark(&self) {
            self.0.notify();
        }
    }
}
