//! In place of the crate's `src/base/sync.rs`.

use std::sync::PoisonError;

pub use loom::sync::atomic::{AtomicUsize, Ordering};
pub use loom::sync::{Arc, MutexGuard};

/// A mutex without poison, as the crate's.
#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

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

    pub fn panicking() -> bool {
        std::thread::panicking()
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
