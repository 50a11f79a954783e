//! Helpers of tests of lost devices.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use onetrip::{Device, Recovery};

use crate::common;

/// A device of any adapter with this recovery, or `None` where there is no adapter.
pub async fn device(recovery: Recovery) -> Option<Device> {
    common::devices().await.into_iter().find(Device::is_gpu)?;
    let builder = Device::builder().without_cache().recovery(recovery);
    Some(builder.gpu().await.expect("the adapter that was there"))
}

/// Fails instead of hanging.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("hangs")
}

/// The result of a future, if it is done after so many polls.
pub async fn polled<T>(mut future: Pin<&mut impl Future<Output = T>>, times: usize) -> Option<T> {
    for _ in 0..times {
        let once = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(done) = once.await {
            return Some(done);
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    None
}
