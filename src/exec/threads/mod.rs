//! Work for other threads: a whole task on one thread, or parts shared with helpers.

mod handed;
mod helper_delay;
mod helpers;
mod pool;
mod team;
mod thread_flag;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::sync::oneshot::{self, Receiver};

#[cfg(feature = "gpu")]
pub(crate) use self::handed::BoxedWork;
pub(crate) use self::helpers::{ActiveRun, start_first_helper};
pub(crate) use self::pool::count;
#[cfg(any(feature = "blocking", all(test, feature = "gpu")))]
pub(crate) use self::thread_flag::waiting;
pub(crate) use self::thread_flag::waits_here;
#[cfg(feature = "gpu")]
pub(crate) use self::thread_flag::while_set;

use self::team::OwnTeam;
use crate::base::process::is_forked_child;
use crate::base::sync::Mutex;
use crate::base::trace::from_here;

/// Divisor of the sizes from which work is shared out, or memory is large. Miri interprets every step, and reaches the
/// sizes in time only if they are smaller. A power of two.
pub(crate) const SMALLER: usize = if cfg!(miri) { 1 << 9 } else { 1 };

/// Calls `work` for each of `items`, in any order, on this thread and on free helpers. A single item is done on this
/// thread. Each thread has its own state from `init`. `work` must not wait for helpers.
///
/// This thread takes the first items and the others take the last. From run to run, about the same part of the data then
/// stays in the cache of a core.
pub(crate) fn for_each<T: Send, S>(
    mut items: Vec<T>,
    init: impl Fn() -> S + Sync + Send,
    work: impl Fn(&mut S, T) + Sync + Send,
) {
    if items.len() <= 1 {
        if let Some(item) = items.pop() {
            work(&mut init(), item);
        }
        return;
    }
    let items = behind_locks(items);
    from_both_ends(items.len(), &|next| {
        let next = || next().and_then(|at| items[at].0.lock().take());
        let Some(first) = next() else { return };
        let mut state = init();
        work(&mut state, first);
        // An item that was taken from the other end is followed by such items alone.
        while let Some(item) = next() {
            work(&mut state, item);
        }
    });
}

/// A value that shares no cache line with others. Between far cores, a line moves in 0.2 µs. It takes two lines, since some
/// processors fetch lines in pairs.
#[repr(align(128))]
struct Apart<T>(T);

/// The items, to be taken by threads. A function of its own is compiled once for each type.
fn behind_locks<T>(items: Vec<T>) -> Vec<Apart<Mutex<Option<T>>>> {
    items.into_iter().map(|item| Apart(Mutex::new(Some(item)))).collect()
}

/// The next number that a thread takes, as long as there is one.
type NextNumber<'a> = &'a dyn Fn() -> Option<usize>;

/// Calls `work` on this thread and on free helpers. Its argument returns each number below `len` once: from the first on
/// for this thread, and from the last on for the others. In the end it returns `None`.
fn from_both_ends(len: usize, work: &(dyn Fn(NextNumber<'_>) + Sync)) {
    const OF_OTHERS: u64 = 1 << 32;
    let helpers = count().min(len) - 1;
    // The numbers that this thread took, and above them those that others took.
    let (owner, taken) = (thread::current().id(), Apart(AtomicU64::new(0)));
    in_team(|team| {
        team.together(helpers, &|| {
            let is_owner = thread::current().id() == owner;
            work(&|| {
                let one = if is_owner { 1 } else { OF_OTHERS };
                let before = taken.0.fetch_add(one, Ordering::Relaxed);
                let [first, last] = [before % OF_OTHERS, before / OF_OTHERS].map(|n| n as usize);
                (first + last < len).then(|| if is_owner { first } else { len - 1 - last })
            });
        });
    });
}

/// As [`for_each`], for the numbers below `len`, which is not 0. No list of items is allocated.
pub(crate) fn for_each_number(len: usize, work: impl Fn(usize) + Sync) {
    from_both_ends(len, &|next| {
        while let Some(number) = next() {
            work(number);
        }
    });
}

/// As [`for_each`], but on this thread alone unless the work `is_shared`.
pub(crate) fn for_each_if<T: Send, S>(
    is_shared: bool,
    items: Vec<T>,
    init: impl Fn() -> S + Sync + Send,
    work: impl Fn(&mut S, T) + Sync + Send,
) {
    if is_shared {
        return for_each(items, init, work);
    }
    let mut state = init();
    for item in items {
        work(&mut state, item);
    }
}

thread_local! {
    /// The idle team of the thread. It is empty while the team is open; nested work then makes a team of its own.
    static TEAM: Cell<Option<OwnTeam>> = const { Cell::new(None) };
}

/// Returns the result of `call` on this thread's team.
fn in_team<R>(call: impl FnOnce(&mut OwnTeam) -> R) -> R {
    // A thread that ends has no idle team.
    let idle = TEAM.try_with(Cell::take).ok().flatten();
    let mut team = idle.unwrap_or_else(OwnTeam::new);
    let result = call(&mut team);
    let _ = TEAM.try_with(|idle| idle.set(Some(team)));
    result
}

/// Number of parts into which this thread cuts short work of so many `nanoseconds`, for itself and helpers that spin for
/// it. Where these are near, a part takes at least `least` nanoseconds.
pub(crate) fn short_parts(nanoseconds: u64, least: u64) -> usize {
    // A forked child has none of the helpers that its parent counted.
    let shares = nanoseconds / 2 >= least && !is_forked_child();
    if shares { in_team(|team| team.short_parts(nanoseconds, least)) } else { 1 }
}

/// Copies `from` to `to`, which is as long, in shared parts of `part` bytes. Bytes of any elements, so that this is
/// compiled once, and not in the user's crate.
pub(crate) fn copy(from: &[u8], to: &mut [MaybeUninit<u8>], part: usize) {
    let parts = to.chunks_mut(part).zip(from.chunks(part));
    for_each(parts.collect(), || (), |(), (to, from)| _ = to.write_copy_of_slice(from));
}

pub(crate) fn fill(to: &mut [u32], word: u32) {
    const PART: usize = 1 << 18;
    for_each(to.chunks_mut(PART).collect(), || (), |(), part| part.fill(word));
}

/// Writes to each page of `memory`. A page that is touched for the first time takes a µs.
pub(crate) fn touch(memory: &mut [u8]) {
    const PAGE: usize = 4096;
    const PART: usize = 256 * PAGE;
    let touch =
        |(): &mut (), part: &mut [u8]| part.iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
    for_each(memory.chunks_mut(PART).collect(), || (), touch);
}

/// Returns the results of `work` for each item, in order. The items are shared out as by [`for_each`], over threads
/// that stay. A driver may hang if a thread that used it ends while another closes a device.
pub(crate) fn map_each<T: Send, S, R: Send>(
    items: impl ExactSizeIterator<Item = T>,
    init: impl Fn() -> S + Sync + Send,
    work: impl Fn(&mut S, T) -> R + Sync + Send,
) -> Vec<R> {
    let mut results: Vec<Option<R>> = Vec::new();
    results.resize_with(items.len(), || None);
    let places = items.zip(&mut results).collect();
    for_each(places, init, |state, (item, result)| *result = Some(work(state, item)));
    results.into_iter().flatten().collect()
}

/// Returns the result of `work`, which runs on one of rayon's threads. A thread of rayon runs it itself, since all of
/// them may be waiting here for a free one. If the future is dropped before a thread is free, `work` never runs.
pub(crate) async fn off_thread<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    if does_work() {
        return work();
    }
    result(hand_over(work)).await
}

/// As [`begin`], but on the thread to which `leave` passes the work.
#[cfg(feature = "gpu")]
pub(crate) fn begin_on<R: Send + 'static>(
    leave: impl FnOnce(BoxedWork),
    work: impl FnOnce() -> R + Send + 'static,
) -> impl Future<Output = R> {
    let (work, receiver) = parcel(work);
    leave(Box::new(work));
    result(receiver)
}

/// As [`off_thread`], but the work begins at once.
#[cfg(feature = "gpu")]
pub(crate) fn begin<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> impl Future<Output = R> {
    let begun = if does_work() { Ok(work()) } else { Err(hand_over(work)) };
    async {
        match begun {
            Ok(done) => done,
            Err(receiver) => result(receiver).await,
        }
    }
}

/// Returns whether this thread does work that others hand over. Such a thread must not wait for work that may not have
/// begun. A browser's one thread does it all.
fn does_work() -> bool {
    cfg!(target_arch = "wasm32") || rayon::current_thread_index().is_some() || handed::is_spare()
}

/// Hands `work` over to one of rayon's threads and returns the receiver of its result.
fn hand_over<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Receiver<thread::Result<R>> {
    let (work, receiver) = parcel(work);
    handed::hand_over(Box::new(work));
    receiver
}

/// Wraps `work` for another thread, and returns it with the receiver of its result. A panic reaches the receiver: rayon
/// alone would end the process.
fn parcel<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> (impl FnOnce() + Send, Receiver<thread::Result<R>>) {
    let (sender, receiver) = oneshot::channel();
    let work = from_here(work);
    let work = move || {
        // Work whose receiver is gone is dropped inside `catch_unwind`, since the drop of a user's value may panic too.
        let done = catch_unwind(AssertUnwindSafe(|| (!sender.is_closed()).then(work)));
        if let Some(done) = done.transpose() {
            drop(sender.send(done));
        }
    };
    (work, receiver)
}

async fn result<R>(receiver: Receiver<thread::Result<R>>) -> R {
    match receiver.await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => unreachable!("the sender sends before it is dropped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: [usize; 4] = [0, 1, 2, if cfg!(miri) { 50 } else { 1000 }];

    #[test]
    fn each_item_is_taken_once() {
        let all = |count| {
            let done = Mutex::new(Vec::new());
            for_each((0..count).collect(), || (), |(), item| done.lock().push(item));
            let mut done = done.into_inner();
            done.sort_unstable();
            assert_eq!(done, (0..count).collect::<Vec<_>>());
        };
        for count in COUNTS {
            all(count);
            rayon::scope(|_| all(count));
        }
    }

    #[test]
    fn results_come_in_the_order_of_their_items() {
        for count in COUNTS {
            let squares = map_each(0..count, || 0, |_, item| item * item);
            assert_eq!(squares, (0..count).map(|item| item * item).collect::<Vec<_>>());
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

    #[cfg(feature = "gpu")]
    #[tokio::test]
    async fn what_is_begun_is_done_before_anybody_waits() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let begun = begin(move || sender.send(()).map(|()| 5));
        receiver.recv().expect("it was begun");
        assert_eq!(begun.await, Ok(5));
    }

    #[tokio::test]
    async fn a_panic_reaches_who_waits() {
        let waiting = tokio::spawn(off_thread(|| panic!("as it should")));
        assert!(waiting.await.unwrap_err().is_panic());
        assert_eq!(off_thread(|| 5).await, 5);
    }

    #[test]
    fn what_nobody_waits_for_may_panic_where_it_is_dropped() {
        struct Panics;

        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("as it may");
            }
        }

        let held = Panics;
        let (work, receiver) = parcel(move || _ = &held);
        drop(receiver);
        work();
    }
}
