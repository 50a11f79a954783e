//! Adapters that tests need.

use std::fmt::Display;

/// What a test is to run on. On a desk without an adapter it skips and says so; in CI (`CI` is set) it fails.
pub(crate) fn found<T, E: Display>(opened: Result<T, E>) -> Option<T> {
    match opened {
        Ok(found) => Some(found),
        Err(error) if std::env::var_os("CI").is_some() => panic!("CI needs an adapter: {error}"),
        Err(error) => {
            println!("skipped on the GPU: {error}");
            None
        }
    }
}
