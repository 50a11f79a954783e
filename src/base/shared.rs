//! Shared data that is proven `Send` and `Sync` once, in this crate.

use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// An `Arc<T>` behind a trait object. The compiler of a user's crate would prove again, for each task that holds one,
/// that all of `T` is `Send` and `Sync`; through the types of wgpu that exceeds its recursion limit. The proof ends
/// here.
pub(crate) struct Shared<T: 'static>(Arc<dyn Reveal<T> + Send + Sync>);

trait Reveal<T> {
    fn reveal(&self) -> &T;
}

impl<T> Reveal<T> for T {
    fn reveal(&self) -> &T {
        self
    }
}

impl<T: Send + Sync> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Shared<T> {
    /// Returns whether both share one value.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A panic leaves nothing half done behind it: the locks inside say so of what they guard.
impl<T> UnwindSafe for Shared<T> {}
impl<T> RefUnwindSafe for Shared<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        (*self.0).reveal()
    }
}
