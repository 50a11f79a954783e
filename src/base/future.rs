//! Futures in boxes, and futures made of others.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

/// A future in a box. Its code belongs to this crate: a crate that awaits it does not compile it again. As every future
/// it does nothing until it is polled, and stops when it is dropped.
#[cfg(not(target_arch = "wasm32"))]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A future in a box. Its code belongs to this crate: a crate that awaits it does not compile it again. As every future
/// it does nothing until it is polled, and stops when it is dropped.
#[cfg(target_arch = "wasm32")]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Lets other tasks of this thread run.
pub(crate) async fn yield_now() {
    let mut given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Both results, of two futures that are polled in turn.
pub(crate) async fn both<A, B>(
    one: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(done) = one.as_mut().poll(context)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = other.as_mut().poll(context)
        {
            second = Some(done);
        }
        if first.is_none() || second.is_none() {
            return Poll::Pending;
        }
        first.take().zip(second.take()).map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
