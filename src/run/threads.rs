//! Work for rayon's threads: all of it on one of them, or in parts that any of them may do.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
#[cfg(any(feature = "gpu", test))]
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use tokio::sync::oneshot;

use crate::trace::from_here;

/// Does `work` on each of `parts`, on this thread and those of rayon that are free, in any order.
#[cfg(any(feature = "gpu", test))]
pub(crate) fn share<I: Send>(
    parts: impl ExactSizeIterator<Item = I> + Send,
    work: impl Fn(I) + Sync,
) {
    let others = rayon::current_num_threads().min(parts.len()).saturating_sub(1);
    let parts = Mutex::new(parts);
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let drain = || {
        while let Some(part) = next() {
            work(part);
        }
    };
    rayon::in_place_scope(|scope| {
        (0..others).for_each(|_| scope.spawn(|_| drain()));
        drain();
    });
}

/// Copies `from` to `to`, which is as long, by `part` elements at a time.
pub(crate) fn copy<T: Copy + Send + Sync>(from: &[T], to: &mut [T], part: usize) {
    let parts = to.par_chunks_mut(part).zip(from.par_chunks(part));
    parts.for_each(|(to, from)| to.copy_from_slice(from));
}

/// As [`copy`], to memory that holds nothing yet.
pub(crate) fn copy_to<T: Copy + Send + Sync>(from: &[T], to: &mut [MaybeUninit<T>], part: usize) {
    let parts = to.par_chunks_mut(part).zip(from.par_chunks(part));
    parts.for_each(|(to, from)| {
        to.write_copy_of_slice(from);
    });
}

/// The results of `work` on each item, in order, on threads that stay: a driver may hang where one that used it ends
/// while another closes a device.
#[cfg(feature = "gpu")]
pub(crate) fn parallel<I: Send, R: Send>(items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    let done = Mutex::new(Vec::with_capacity(items.len()));
    share(items.into_iter().enumerate(), |(at, item)| {
        let result = work(item);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The result of `work`, done on one of rayon's threads: on this one if it is of rayon, since all of them may be
/// waiting here for one that is free. If the future is dropped before a thread was free, nothing is done.
pub(crate) async fn off_thread<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    if rayon::current_thread_index().is_some() {
        return work();
    }
    let (sender, receiver) = oneshot::channel();
    let work = from_here(work);
    // A panic must reach who waits: on its own, rayon would end the process.
    rayon::spawn(move || {
        if !sender.is_closed() {
            drop(sender.send(catch_unwind(AssertUnwindSafe(work))));
        }
    });
    match receiver.await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => unreachable!("the sender sends before it is dropped"),
    }
}

/// Threads that runs are shared out over.
pub(crate) fn count() -> usize {
    rayon::current_num_threads()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_done_once() {
        for count in [0, 1, 2, 1000] {
            let done = Mutex::new(Vec::new());
            share(0..count, |part| done.lock().unwrap().push(part));
            let mut done = done.into_inner().unwrap();
            done.sort_unstable();
            assert_eq!(done, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn all_of_rayon_s_threads_may_wait_at_once() {
        let results = rayon::broadcast(|thread| {
            let index = thread.index();
            pollster::block_on(off_thread(move || index))
        });
        assert_eq!(results, (0..count()).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_panic_reaches_who_waits() {
        let waiting = tokio::spawn(off_thread(|| panic!("as it should")));
        assert!(waiting.await.unwrap_err().is_panic());
        assert_eq!(off_thread(|| 5).await, 5);
    }
}
