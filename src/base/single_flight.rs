//! Things that many need at once and one makes, while the others wait.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::base::sync::{Arc, Condvar, Mutex};

/// Lets one task or thread at a time make the thing of a key. Others that need the same thing wait until the maker has
/// ended; those that need the thing of another key do not.
///
/// The made things lie elsewhere: a maker stores its thing there before it drops its [`Maker`].
pub(crate) struct SingleFlight<K = ()>(Arc<Flights<K>>);

struct Flights<K> {
    under_way: Mutex<UnderWay<K>>,
    /// Notified when a flight ends.
    ended: Condvar,
}

struct UnderWay<K> {
    /// One for each key whose thing is being made.
    flights: Vec<Flight<K>>,
    next: u64,
}

struct Flight<K> {
    key: K,
    number: u64,
    waiting: Vec<Waker>,
}

/// The answer to a caller that needs a thing.
pub(crate) enum Begin<T, K> {
    /// The thing was made before.
    Made(T),
    /// The caller is to make it.
    Make(Maker<K>),
}

/// The right to make the thing of a key. Others wait until it is dropped, on whichever thread that is.
pub(crate) struct Maker<K> {
    flights: Arc<Flights<K>>,
    number: u64,
}

impl<K> Default for SingleFlight<K> {
    fn default() -> Self {
        let under_way = Mutex::new(UnderWay { flights: Vec::new(), next: 0 });
        Self(Arc::new(Flights { under_way, ended: Condvar::new() }))
    }
}

impl<K: Clone + PartialEq> SingleFlight<K> {
    /// The thing of `key` as `made` finds it, or the right to make it. Waits while somebody else makes it, even if nobody
    /// awaits that any more.
    pub async fn begin<T>(&self, key: &K, made: impl Fn() -> Option<T>) -> Begin<T, K> {
        if let Some(made) = made() {
            return Begin::Made(made);
        }
        poll_fn(|context| {
            let mut under_way = self.0.under_way.lock();
            let Some(flight) = under_way.of(key) else {
                return Poll::Ready(self.start(&mut under_way, key, &made));
            };
            if !flight.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                flight.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// The right to make a thing of `key` that nobody shares.
    pub async fn alone(&self, key: &K) -> Maker<K> {
        loop {
            if let Begin::Make(maker) = self.begin(key, || None::<()>).await {
                return maker;
            }
        }
    }

    pub fn begin_blocking<T>(&self, key: &K, made: impl Fn() -> Option<T>) -> Begin<T, K> {
        let mut under_way = self.0.under_way.lock();
        while under_way.of(key).is_some() {
            under_way = self.0.ended.wait(under_way);
        }
        self.start(&mut under_way, key, &made)
    }

    /// The thing of `key`, which nobody makes, or the right to make it. `made` is asked again: the last maker may have
    /// ended since.
    fn start<T>(
        &self,
        under_way: &mut UnderWay<K>,
        key: &K,
        made: &impl Fn() -> Option<T>,
    ) -> Begin<T, K> {
        if let Some(made) = made() {
            return Begin::Made(made);
        }
        let number = under_way.next;
        under_way.next += 1;
        under_way.flights.push(Flight { key: key.clone(), number, waiting: Vec::new() });
        Begin::Make(Maker { flights: Arc::clone(&self.0), number })
    }
}

impl<K: PartialEq> UnderWay<K> {
    fn of(&mut self, key: &K) -> Option<&mut Flight<K>> {
        self.flights.iter_mut().find(|flight| flight.key == *key)
    }
}

impl<K> Drop for Maker<K> {
    fn drop(&mut self) {
        let mut under_way = self.flights.under_way.lock();
        let at = under_way.flights.iter().position(|flight| flight.number == self.number);
        let ended = at.map(|at| under_way.flights.swap_remove(at));
        drop(under_way);
        self.flights.ended.notify_all();
        ended.into_iter().flat_map(|flight| flight.waiting).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Context;
    use std::thread;

    use super::*;

    #[test]
    fn callers_of_one_key_wait_and_those_of_another_do_not() {
        let flights = SingleFlight::default();
        let begin = |key| {
            let begun = pin!(flights.begin(&key, || None::<()>));
            begun.poll(&mut Context::from_waker(Waker::noop())).map(|begin| match begin {
                Begin::Made(()) => unreachable!("nothing is ever made"),
                Begin::Make(maker) => maker,
            })
        };
        let first = begin(1);
        assert!(first.is_ready());
        assert!(begin(1).is_pending());
        let second = begin(2);
        assert!(second.is_ready(), "the making of another may hang");
        assert!(begin(2).is_pending());
        drop(first);
        assert!(begin(2).is_pending());
        drop(second);
        assert!(begin(2).is_ready());
    }

    #[test]
    fn tasks_and_threads_wait_for_one_maker() {
        let (flights, made, makers) =
            (SingleFlight::default(), Mutex::new(None), AtomicU32::new(0));
        let known = || *made.lock();
        let make = |begin: Begin<u32, ()>| match begin {
            Begin::Made(value) => value,
            Begin::Make(_maker) => {
                makers.fetch_add(1, Ordering::Relaxed);
                thread::sleep(std::time::Duration::from_millis(5));
                *made.lock() = Some(7);
                7
            }
        };
        thread::scope(|scope| {
            let blocking = || make(flights.begin_blocking(&(), known));
            let awaiting = || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                make(runtime.block_on(flights.begin(&(), known)))
            };
            let threads = (0..8)
                .map(|at| if at % 2 == 0 { scope.spawn(blocking) } else { scope.spawn(awaiting) });
            let threads: Vec<_> = threads.collect();
            assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 7));
        });
        assert_eq!(makers.into_inner(), 1);
    }
}
