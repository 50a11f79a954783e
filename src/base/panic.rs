//! Panics in what the user gave to be called.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
