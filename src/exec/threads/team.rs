//! A team of one thread and of those of rayon that come to help it. The owner begins at once, and waits for no thread
//! that has not come. A parallel iterator instead waits until each task was begun, which takes as long as a thread
//! takes to wake up. On 16 cores, work of 15, 63 and 270 µs took 17, 25 and 59 µs as a parallel iterator. By a team it
//! took 8, 12 and 24 µs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU32;

use super::pool::{comes_soon, count, spawn};
use crate::base::sync::thread::{self, Thread};
use crate::base::sync::{Arc, AtomicUsize, Mutex, Ordering};

/// Bit of [`Team::state`] that is set once no helper may come any more.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Invitations of the process that no thread has answered. While threads are busy, no more are sent than there are
/// threads.
static UNANSWERED: AtomicU32 = AtomicU32::new(0);

/// Calls `work` on this thread, and on up to `helpers` of rayon's threads that come before it returns here. Returns
/// once all helpers that came have returned. `work` shares out its parts by itself, and never waits for other threads
/// of rayon.
pub(super) fn together<F: Fn() + Sync>(helpers: usize, work: &F) {
    let team = Arc::new(Team {
        work: BorrowedWork::new(work),
        state: AtomicUsize::new(0),
        owner: thread::current(),
        panic: Mutex::new(None),
    });
    let closing = Closing(&team);
    invite(&team, helpers);
    work();
    drop(closing);
    let panic = team.panic.lock().take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

struct Team {
    work: BorrowedWork,
    /// Number of helpers at work, and the bit [`CLOSED`].
    state: AtomicUsize,
    owner: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A borrowed function whose lifetime is erased.
struct BorrowedWork {
    function: *const (),
    call: unsafe fn(*const ()),
}

// SAFETY: the value stands for a reference to a function that is `Sync`.
unsafe impl Send for BorrowedWork {}
// SAFETY: as above.
unsafe impl Sync for BorrowedWork {}

impl BorrowedWork {
    fn new<F: Fn() + Sync>(function: &F) -> Self {
        /// # Safety
        /// `function` points to an `F`.
        unsafe fn call<F: Fn()>(function: *const ()) {
            // SAFETY: `function` points to an `F`, as the caller promises.
            unsafe { (*function.cast::<F>())() }
        }
        Self { function: std::ptr::from_ref(function).cast(), call: call::<F> }
    }
}

/// Sends at most two invitations. Each invited helper invites the rest of its half, so that no thread sends many.
fn invite(team: &Arc<Team>, helpers: usize) {
    let first = helpers.div_ceil(2);
    for invited in [first, helpers - first] {
        if invited == 0 || UNANSWERED.load(Ordering::Relaxed) as usize >= count() {
            return;
        }
        UNANSWERED.fetch_add(1, Ordering::Relaxed);
        let team = Arc::clone(team);
        spawn(move || {
            UNANSWERED.fetch_sub(1, Ordering::Relaxed);
            Team::help(&team, invited);
        });
    }
}

impl Team {
    /// Works as the first of `helpers` and invites the others, unless the team is closed.
    fn help(team: &Arc<Self>, helpers: usize) {
        let come = |state: usize| (state & CLOSED == 0).then_some(state + 1);
        if team.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, come).is_err() {
            return;
        }
        invite(team, helpers - 1);
        // SAFETY: the team was open when this helper came, so the owner is in `together`. The owner stays there, with
        // the function that it lent, until the helper has left.
        let work = || unsafe { (team.work.call)(team.work.function) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            *team.panic.lock() = Some(panic);
        }
        if team.state.fetch_sub(1, Ordering::AcqRel) == CLOSED + 1 {
            team.owner.unpark();
        }
    }

    /// Closes the team to further helpers, and waits for those that came.
    fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        let have_left = || self.state.load(Ordering::Acquire) == CLOSED;
        while !comes_soon(have_left) {
            thread::park();
        }
    }
}

/// Closes the team when it is dropped, also if the owner's part of the work panics.
struct Closing<'a>(&'a Team);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns whether another thread makes `condition` true before long.
    fn comes_true(condition: impl Fn() -> bool) -> bool {
        let mut looks = 0..50;
        looks.any(|_| {
            thread::sleep(Duration::from_millis(1));
            condition()
        })
    }

    /// Runs `work` on the owner and one helper at once. Busy threads may not come, and are asked again. The argument of
    /// `work` is true on the owner.
    fn by_two<R>(done: impl Fn(R) -> bool, run: impl Fn(&dyn Fn(&(dyn Fn(bool) + Sync))) -> R) {
        let together = |work: &(dyn Fn(bool) + Sync)| {
            let (here, begun) = (thread::current().id(), AtomicUsize::new(0));
            together(1, &|| {
                begun.fetch_add(1, Ordering::Relaxed);
                if comes_true(|| begun.load(Ordering::Relaxed) == 2) {
                    work(thread::current().id() == here);
                }
            });
        };
        let mut tries = 0..1000;
        assert!(tries.any(|_| done(run(&together))), "nobody ever came");
    }

    #[test]
    fn who_comes_helps_and_is_waited_for() {
        by_two(
            |done| done == 2,
            |together| {
                let done = AtomicUsize::new(0);
                together(&|is_owner| {
                    if !is_owner {
                        thread::sleep(Duration::from_millis(20));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                });
                done.into_inner()
            },
        );
    }

    #[test]
    fn who_is_late_does_nothing() {
        let calls = Arc::new(AtomicUsize::new(0));
        let team = Arc::new(Team {
            work: BorrowedWork::new(&|| panic!("the team is closed")),
            state: AtomicUsize::new(0),
            owner: thread::current(),
            panic: Mutex::new(None),
        });
        team.close();
        Team::help(&team, 3);
        assert!(team.panic.lock().is_none());
        together(0, &|| _ = calls.fetch_add(1, Ordering::Relaxed));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_panic_of_a_helper_or_of_the_owner_reaches_the_owner() {
        for owner_panics in [false, true] {
            by_two(
                |panic: thread::Result<()>| {
                    panic.is_err_and(|panic| panic.downcast_ref() == Some(&"as it should"))
                },
                |together| {
                    let work = |is_owner| assert!(is_owner != owner_panics, "as it should");
                    catch_unwind(AssertUnwindSafe(|| together(&work)))
                },
            );
        }
    }

    #[test]
    fn many_teams_at_once_do_each_piece_once() {
        let rounds = if cfg!(miri) { 20 } else { 200 };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..rounds {
                        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
                        together(3, &|| {
                            while next.fetch_add(1, Ordering::Relaxed) < round {
                                done.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                        assert_eq!(done.load(Ordering::Relaxed), round);
                    }
                });
            }
        });
    }
}
