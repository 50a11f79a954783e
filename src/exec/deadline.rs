//! Futures that end early: after a time, or on a signal.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_timer::Delay;

use crate::error::{self, RunError};

/// Returns the output of `work`, or `None` if `stop` is ready first. `work` is then dropped.
pub(crate) async fn unless<R>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = R>,
) -> Option<R> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    poll_fn(|context| {
        if let Poll::Ready(result) = work.as_mut().poll(context) {
            return Poll::Ready(Some(result));
        }
        stop.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// Returns the result of `run`, or [`RunError::Cancelled`] if `stop` is ready first. `run` is then dropped.
pub(crate) async fn run_unless<R>(
    stop: impl Future<Output = ()>,
    run: impl Future<Output = error::Result<R>>,
) -> error::Result<R> {
    unless(stop, run).await.unwrap_or_else(|| Err(RunError::Cancelled.into()))
}

/// Returns the output of `work`, or the `limit` if there is one and it takes longer from the first poll.
pub(crate) async fn within<R>(
    limit: Option<Duration>,
    work: impl Future<Output = R>,
) -> Result<R, Duration> {
    let Some(limit) = limit else { return Ok(work.await) };
    unless(Delay::new(limit), work).await.ok_or(limit)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn work_ends_by_itself_or_is_stopped() {
        assert_eq!(within(Some(Duration::ZERO), ready(5)).await, Ok(5), "what is done is done");
        let limit = Duration::from_millis(1);
        assert_eq!(within(Some(limit), pending::<u8>()).await, Err(limit));
        assert_eq!(within(None, ready(5)).await, Ok(5));
        assert_eq!(unless(pending(), ready(5)).await, Some(5));
        assert_eq!(unless(ready(()), pending::<u8>()).await, None);
    }
}
