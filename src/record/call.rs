//! The user's call that is being recorded, by method and place.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use crate::base::place::Place;

/// A call of the user's: the method, and where.
#[derive(Clone, Debug)]
pub(crate) struct UserCall {
    pub name: &'static str,
    pub place: Place,
}

thread_local! {
    /// The call that everything recorded on this thread is part of. Recording is synchronous, so one thread records all of
    /// a call. It is never dropped, so that a thread that ends may still record.
    static OUTER: ManuallyDrop<RefCell<Option<UserCall>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

impl UserCall {
    /// The call that is being recorded: the outer one, or else that of the method `name`.
    #[track_caller]
    pub fn current(name: &'static str) -> Self {
        match OUTER.with(|outer| outer.borrow().clone()) {
            Some(call) => call,
            None => Self { name, place: Place::caller() },
        }
    }

    /// Makes everything recorded until the result is dropped part of the method `name`, unless an outer call encloses it.
    #[track_caller]
    pub fn enter(name: &'static str) -> Entered {
        let call = Self::current(name);
        Entered { before: OUTER.with(|outer| outer.replace(Some(call))) }
    }

    /// The method that the user called, from within one that is made of others.
    pub fn outer_name() -> &'static str {
        OUTER.with(|outer| outer.borrow().as_ref().map_or("operation", |call| call.name))
    }
}

/// Restores the call before, also when recording panics.
pub(crate) struct Entered {
    before: Option<UserCall>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        OUTER.with(|outer| outer.replace(self.before.take()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_where_its_recording_does_also_by_a_panic() {
        let panicked = std::panic::catch_unwind(|| {
            let _outer = UserCall::enter("outer");
            let _inner = UserCall::enter("inner");
            assert_eq!(UserCall::current("innermost").name, "outer");
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert_eq!(UserCall::current("next").name, "next");
    }
}
