//! What one future has another thread make while others that need it wait.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// Whether something is being made, and for which of several. No lock: who is next to have one, and is not polled, would
/// keep all others waiting.
pub(super) struct Making<K = ()>(Mutex<Option<Made<K>>>);

/// What is made, or was, and the end of that.
struct Made<K> {
    key: K,
    end: watch::Receiver<()>,
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
    /// What was `made` for `key`, or else whose turn it is to make it. Waits while somebody else does: until that has
    /// ended, also where nobody awaits it any more.
    pub async fn begin<T>(&self, key: &K, made: impl Fn() -> Option<T>) -> Make<T> {
        loop {
            if let Some(made) = made() {
                return Make::Made(made);
            }
            match self.enter(key) {
                Ok(sender) => return Make::Here(Held(sender)),
                Err(mut others) => _ = others.changed().await,
            }
        }
    }

    /// What others wait for from now on, or what they wait for already.
    fn enter(&self, key: &K) -> Result<watch::Sender<()>, watch::Receiver<()>> {
        let mut making = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_made = |made: &&Made<K>| made.key == *key && made.end.has_changed().is_ok();
        if let Some(others) = making.as_ref().filter(is_made) {
            return Err(others.end.clone());
        }
        let (sender, end) = watch::channel(());
        *making = Some(Made { key: key.clone(), end });
        Ok(sender)
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
