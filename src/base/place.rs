//! Places in the user's code.

use std::cell::RefCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::sync::Arc;

/// A place in the user's code: a call in Rust, or a file and a line that were given at run time. Prints as
/// `src/main.rs:12`.
#[derive(Clone, PartialEq, Eq)]
pub struct Place(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    Code(&'static Location<'static>),
    Given(Arc<(Box<str>, u32)>),
}

thread_local! {
    /// The place that stands for all calls of this thread, if one was given. It is never dropped, so that a
    /// thread that ends may still record.
    static GIVEN: ManuallyDrop<RefCell<Option<Place>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

impl Place {
    /// The caller's place, unless another one was given for the calls of this thread.
    #[track_caller]
    pub(crate) fn caller() -> Self {
        let code = Self(Repr::Code(Location::caller()));
        GIVEN.with(|given| given.borrow().clone()).unwrap_or(code)
    }

    /// A line of a file that need not be Rust.
    pub(crate) fn given(file: &str, line: u32) -> Self {
        Self(Repr::Given(Arc::new((file.into(), line))))
    }

    /// Makes this the place of all calls of this thread. Returns the place before.
    pub(crate) fn set(place: Option<Self>) -> Option<Self> {
        GIVEN.with(|given| given.replace(place))
    }

    /// The file's path, as the compiler or the giver names it.
    #[must_use]
    pub fn file(&self) -> &str {
        match &self.0 {
            Repr::Code(location) => location.file(),
            Repr::Given(given) => &given.0,
        }
    }

    /// The line, counted from 1.
    #[must_use]
    pub fn line(&self) -> u32 {
        match &self.0 {
            Repr::Code(location) => location.line(),
            Repr::Given(given) => given.1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file(), self.line())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
