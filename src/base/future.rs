//! Futures whose code is compiled with this crate.

use std::pin::Pin;

/// A future in a box. Its code belongs to this crate: a crate that awaits it does not compile it again. As every future
/// it does nothing until it is polled, and stops when it is dropped.
#[cfg(not(target_arch = "wasm32"))]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A future in a box. Its code belongs to this crate: a crate that awaits it does not compile it again. As every future
/// it does nothing until it is polled, and stops when it is dropped.
#[cfg(target_arch = "wasm32")]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
