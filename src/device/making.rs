//! What one future has another thread make while others that need it wait.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::run::threads::is_of_rayon;

/// Whether something is being made. No lock: who is next to have one, and is not polled, would keep all others waiting.
#[derive(Default)]
pub(super) struct Making(Mutex<Option<watch::Receiver<()>>>);

/// What to do for something to be there.
pub(super) enum Make<T> {
    /// Nothing: here it is.
    Made(T),
    /// To make it, and to hold this meanwhile, where it is made.
    Here(Held),
}

/// Keeps others waiting until it is dropped.
pub(super) struct Held(#[expect(dead_code, reason = "held")] Option<watch::Sender<()>>);

impl Making {
    /// What was `made`, or else whose turn it is to make it. Waits while somebody else does: until that has ended, also
    /// where nobody awaits it any more. A thread of rayon waits for nobody, since what is made elsewhere may not have
    /// begun: all of rayon's threads might wait for one that is free.
    pub async fn begin<T>(&self, made: impl Fn() -> Option<T>) -> Make<T> {
        loop {
            if let Some(made) = made() {
                return Make::Made(made);
            }
            match self.enter() {
                Ok(sender) => return Make::Here(Held(Some(sender))),
                Err(_) if is_of_rayon() => return Make::Here(Held(None)),
                Err(mut others) => _ = others.changed().await,
            }
        }
    }

    /// What others wait for from now on, or what they wait for already.
    fn enter(&self) -> Result<watch::Sender<()>, watch::Receiver<()>> {
        let mut making = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(others) = making.as_ref().filter(|others| others.has_changed().is_ok()) {
            return Err(others.clone());
        }
        let (sender, receiver) = watch::channel(());
        *making = Some(receiver);
        Ok(sender)
    }
}
