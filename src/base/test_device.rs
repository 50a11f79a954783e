//! Adapters that tests need. Integration tests include this file too.

use std::fmt::Display;

/// The device that a test runs on. Without an adapter the test is skipped with a message, or fails in CI (`CI` is set).
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
