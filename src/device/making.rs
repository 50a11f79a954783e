//! What one future has another thread make while others that need it wait.

use crate::base::sync::Mutex;

use tokio::sync::watch;

/// What was begun last, of several things that are made: only that is waited for. No lock: who is next to have one, and
/// is not polled, would keep all others waiting.
pub(super) struct Making<K = ()>(Mutex<Option<Begun<K>>>);

/// What somebody makes, or has made.
struct Begun<K> {
    key: K,
    /// Closed at its end.
    end: watch::Receiver<()>,
}

impl<K: PartialEq> Begun<K> {
    /// Whether it is `key` that is still being made.
    fn is_making(&self, key: &K) -> bool {
        self.key == *key && self.end.has_changed().is_ok()
    }
}

impl<K> Default for Making<K> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// What to do for something to be there.
pub(super) enum Make<T> {
    /// Nothing: here it is.
    Made(T),
    /// To make it, and to hold this meanwhile, where it is made.
    Here(Held),
}

/// Keeps others waiting until it is dropped.
pub(super) struct Held(#[expect(dead_code, reason = "held")] watch::Sender<()>);

impl<K: Clone + PartialEq> Making<K> {
    /// What was `made` for `key`, or the right to make it. Waits while somebody else does: until that has ended, also where
    /// nobody awaits it any more.
    pub async fn begin<T>(&self, key: &K, made: impl Fn() -> Option<T>) -> Make<T> {
        loop {
            if let Some(made) = made() {
                return Make::Made(made);
            }
            match self.enter(key) {
                Ok(held) => return Make::Here(held),
                Err(mut others) => _ = others.changed().await,
            }
        }
    }

    /// What others wait for from now on, or as an error what they wait for already.
    fn enter(&self, key: &K) -> Result<Held, watch::Receiver<()>> {
        let mut last = self.0.lock();
        if let Some(others) = last.as_ref().filter(|last| last.is_making(key)) {
            return Err(others.end.clone());
        }
        let (sender, end) = watch::channel(());
        *last = Some(Begun { key: key.clone(), end });
        Ok(Held(sender))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn who_needs_the_same_waits_and_who_needs_another_does_not() {
        let making = Making::default();
        let begin = |key| {
            let begun = pin!(making.begin(&key, || None::<()>));
            begun.poll(&mut Context::from_waker(Waker::noop())).map(|make| match make {
                Make::Made(()) => unreachable!("nothing is ever made"),
                Make::Here(held) => held,
            })
        };
        let first = begin(1);
        assert!(first.is_ready());
        assert!(begin(1).is_pending());
        let second = begin(2);
        assert!(second.is_ready(), "what another waits for may hang");
        assert!(begin(2).is_pending());
        drop(first);
        assert!(begin(2).is_pending());
        drop(second);
        assert!(begin(2).is_ready());
    }
}
