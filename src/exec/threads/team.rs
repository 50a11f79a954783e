//! A team: one thread, its owner, and the helpers that come. The owner begins at once, and waits for no helper that has
//! not come. A parallel iterator instead waits until each task was begun, which takes as long as a thread
//! takes to wake up. On 16 cores, work of 15, 63 and 270 µs took 17, 25 and 59 µs as a parallel iterator. By a team it
//! took 8, 12 and 24 µs.

use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU32;

use super::helper_delay::{HelperDelay, TeamDelay};
use super::pool::{Help, comes_soon, count, spawn};
use crate::base::clock::Instant;
use crate::base::sync::thread::{self, Thread};
use crate::base::sync::{Arc, AtomicUsize, Mutex, Ordering};

/// Bit of [`Team::state`] that is set while no helper may come.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// A place for a helper to come, in [`Team::state`]. The places are counted above the helpers at work.
const PLACE: usize = 1 << (usize::BITS / 2);
/// Bits of [`Team::state`] that count the helpers at work.
const AT_WORK: usize = PLACE - 1;

/// The delay of helpers is measured once in so many pieces of short work, since to read the clock takes some 25 ns.
const MEASURED: usize = 8;
/// One in so many pieces of short work is shared whatever the delay, so that it is measured again. A multiple of
/// [`MEASURED`].
const PROBED: usize = 32;

/// Invitations of the process that no thread has answered. While threads are busy, no more are sent than there are
/// threads.
static UNANSWERED: AtomicU32 = AtomicU32::new(0);

/// The owner's side of a team. There is one for each team, and it stays on its thread.
pub(crate) struct OwnTeam {
    team: Arc<Team>,
    /// Number of pieces of short work so far.
    short_pieces: usize,
    /// True if the delay of helpers is measured when the team opens next.
    is_measured: bool,
    of_this_thread: PhantomData<*const ()>,
}

/// A team, which opens for one piece of work after the other.
struct Team {
    /// Number of helpers at work, number of places for more, and the bit [`CLOSED`].
    state: AtomicUsize,
    /// Number of helpers that work in the team or spin until it opens again.
    spinning: AtomicUsize,
    /// The work of the open team. It is replaced while the team is closed and no helper is at work.
    work: UnsafeCell<BorrowedWork>,
    owner: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    delay: TeamDelay,
}

// SAFETY: only the owner writes `work`, while the team is closed and no helper is at work. Helpers read it only after
// `enter`.
unsafe impl Sync for Team {}

/// A borrowed function whose lifetime is erased.
struct BorrowedWork {
    function: *const (),
    call: unsafe fn(*const ()),
    /// The time at which the team opened, if the delay of helpers is measured.
    opened: Option<Instant>,
}

// SAFETY: the value stands for a reference to a function that is `Sync`.
unsafe impl Send for BorrowedWork {}
// SAFETY: as above.
unsafe impl Sync for BorrowedWork {}

impl BorrowedWork {
    fn new<F: Fn() + Sync>(function: &F, opened: Option<Instant>) -> Self {
        /// # Safety
        /// `function` points to an `F`.
        unsafe fn call<F: Fn()>(function: *const ()) {
            // SAFETY: `function` points to an `F`, as the caller promises.
            unsafe { (*function.cast::<F>())() }
        }
        Self { function: std::ptr::from_ref(function).cast(), call: call::<F>, opened }
    }

    /// # Safety
    /// The function is still borrowed.
    unsafe fn run(&self) {
        // SAFETY: as the caller promises; `new` pairs the pointer with its type.
        unsafe { (self.call)(self.function) }
    }
}

/// An invitation to a team.
struct Invitation {
    team: Arc<Team>,
    /// Number of helpers that come by it: the one that gets it, and those that it invites. 0 once it was answered.
    helpers: usize,
    /// True once the helper came again and found no place: the team needs fewer helpers than it has.
    is_surplus: bool,
    delay: HelperDelay,
}

impl Help for Invitation {
    /// Works as the first of the helpers and invites the others, unless the team is closed. From the second time on, the
    /// helper comes alone.
    fn give(&mut self) {
        let Self { team, helpers, is_surplus, delay } = self;
        let others = helpers.saturating_sub(1);
        let is_first = mem::take(helpers) > 0;
        if is_first {
            UNANSWERED.fetch_sub(1, Ordering::Relaxed);
            team.spinning.fetch_add(1, Ordering::Relaxed);
        }
        if team.enter() {
            invite(team, others);
            team.help((!is_first).then_some(delay));
        } else {
            *is_surplus = !is_first;
        }
    }

    fn is_wanted_soon(&self, ended: &dyn Fn() -> bool) -> bool {
        if self.is_surplus {
            return false;
        }
        comes_soon(|| self.team.has_place() || ended());
        self.team.has_place()
    }
}

impl Drop for Invitation {
    fn drop(&mut self) {
        if self.helpers == 0 {
            self.team.spinning.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Sends at most two invitations. Each invited helper invites the rest of its half, so that no thread sends many.
fn invite(team: &Arc<Team>, helpers: usize) {
    let first = helpers.div_ceil(2);
    for helpers in [first, helpers - first] {
        if helpers == 0 || UNANSWERED.load(Ordering::Relaxed) as usize >= count() {
            return;
        }
        UNANSWERED.fetch_add(1, Ordering::Relaxed);
        spawn(Invitation {
            team: Arc::clone(team),
            helpers,
            is_surplus: false,
            delay: HelperDelay::default(),
        });
    }
}

impl OwnTeam {
    /// A team whose owner is this thread.
    pub fn new() -> Self {
        let team = Team {
            state: AtomicUsize::new(CLOSED),
            spinning: AtomicUsize::new(0),
            work: UnsafeCell::new(BorrowedWork::new(&|| (), None)),
            owner: thread::current(),
            panic: Mutex::new(None),
            delay: TeamDelay::default(),
        };
        Self {
            team: Arc::new(team),
            short_pieces: 0,
            is_measured: false,
            of_this_thread: PhantomData,
        }
    }

    /// Number of helpers that spin until the team opens, and then come at once.
    pub fn spinning(&self) -> usize {
        self.team.spinning.load(Ordering::Relaxed)
    }

    /// Number of parts into which this thread cuts short work of so many `nanoseconds`: one for itself, and one for each helper
    /// that spins for it. A part takes at least `least` nanoseconds, and more if helpers come late.
    pub fn short_parts(&mut self, nanoseconds: u64, least: u64) -> usize {
        let spinning = self.spinning();
        if spinning == 0 {
            return 1;
        }
        self.short_pieces += 1;
        self.is_measured = self.short_pieces.is_multiple_of(MEASURED);
        let is_probe = self.short_pieces.is_multiple_of(PROBED);
        let least = if is_probe { least } else { self.team.delay.least_part(least) };
        usize::try_from(nanoseconds / least.max(1)).unwrap_or(usize::MAX).clamp(1, 1 + spinning)
    }

    /// Calls `work` on this thread, the owner's, and on up to `helpers` helpers that come before it returns here. Returns
    /// once all helpers that came have returned. `work` shares out its parts by itself, and never waits for helpers.
    pub fn together<F: Fn() + Sync>(&mut self, helpers: usize, work: &F) {
        let spinning = self.spinning();
        let opened = mem::take(&mut self.is_measured).then(Instant::now);
        let team = &self.team;
        // SAFETY: the team is closed and no helper is at work, since each call ends so. There is no second call at the same
        // time, since this one borrows the only `OwnTeam` of the team.
        unsafe { *team.work.get() = BorrowedWork::new(work, opened) };
        team.state.store(PLACE * helpers.min(AT_WORK / 2), Ordering::Release);
        let closing = Closing(team);
        invite(team, helpers.saturating_sub(spinning));
        work();
        drop(closing);
        let panic = team.panic.lock().take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Team {
    fn has_place(&self) -> bool {
        (PLACE..CLOSED).contains(&self.state.load(Ordering::Relaxed))
    }

    /// Takes a place in the team, if there is one.
    fn enter(&self) -> bool {
        let come = |state: usize| (PLACE..CLOSED).contains(&state).then(|| state - PLACE + 1);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, come).is_ok()
    }

    /// Works as a helper that has entered, and leaves. A helper that spun for the team has a delay to note.
    fn help(&self, delay: Option<&mut HelperDelay>) {
        // SAFETY: the team was open when this helper came, so the owner is in `OwnTeam::together`. The owner stays there, with
        // the function that it lent, until the helper has left.
        let work = unsafe { &*self.work.get() };
        if let Some((opened, delay)) = work.opened.zip(delay) {
            self.delay.note(delay, opened.elapsed());
        }
        // SAFETY: as above.
        let work = || unsafe { work.run() };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            let second = self.panic.lock().replace(panic);
            // Its drop could panic, and the owner would wait for ever.
            mem::forget(second);
        }
        if self.state.fetch_sub(1, Ordering::AcqRel) & (CLOSED | AT_WORK) == CLOSED + 1 {
            self.owner.unpark();
        }
    }

    /// Closes the team to further helpers, and waits for those that came.
    fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        let have_left = || self.state.load(Ordering::Acquire) & AT_WORK == 0;
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
        if thread::panicking() {
            // The owner's panic goes on. The drop of another one could panic too.
            mem::forget(self.0.panic.lock().take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns whether another thread makes `condition` true before long.
    fn comes_true(condition: impl Fn() -> bool) -> bool {
        // Miri counts looks by steps of the others: their time depends on how much else the machine does.
        let mut looks = 0..if cfg!(miri) { 2_000 } else { 50 };
        looks.any(|_| {
            match cfg!(miri) {
                true => thread::yield_now(),
                false => thread::sleep(Duration::from_millis(1)),
            }
            condition()
        })
    }

    /// Runs `work` on the owner and one helper at once. Busy threads may not come, and are asked again. The argument of
    /// `work` is true on the owner.
    fn by_two<R>(done: impl Fn(R) -> bool, run: impl Fn(&dyn Fn(&(dyn Fn(bool) + Sync))) -> R) {
        let together = |work: &(dyn Fn(bool) + Sync)| {
            let (here, begun) = (thread::current().id(), AtomicUsize::new(0));
            OwnTeam::new().together(1, &|| {
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
    fn helpers_that_come_are_waited_for() {
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
    fn a_late_helper_does_nothing() {
        let calls = AtomicUsize::new(0);
        let mut own = OwnTeam::new();
        let team = Arc::clone(&own.team);
        let mut late =
            Invitation { team, helpers: 1, is_surplus: false, delay: HelperDelay::default() };
        UNANSWERED.fetch_add(1, Ordering::Relaxed);
        own.together(0, &|| _ = calls.fetch_add(1, Ordering::Relaxed));
        late.give();
        assert!(!late.is_surplus);
        late.give();
        assert_eq!((calls.into_inner(), own.spinning()), (1, 1));
        assert!(!late.is_wanted_soon(&|| unreachable!("a helper without a place does not wait")));
        drop(late);
        assert_eq!(own.spinning(), 0);
    }

    #[test]
    fn short_work_is_shared_with_helpers_that_spin() {
        let mut own = OwnTeam::new();
        assert_eq!(own.short_parts(u64::MAX, 500), 1, "nobody spins");
        own.team.spinning.store(3, Ordering::Relaxed);
        let work = [0, 999, 1_000, u64::MAX];
        assert_eq!(work.map(|nanoseconds| own.short_parts(nanoseconds, 500)), [1, 1, 2, 4]);
        own.team.delay.note(&mut HelperDelay::default(), Duration::from_secs(1));
        own.short_pieces = PROBED - 1;
        assert_eq!([0; 2].map(|_| own.short_parts(1_000, 500)), [2, 1], "the first is a probe");
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
                    let mut team = OwnTeam::new();
                    for round in 0..rounds {
                        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
                        team.together(3, &|| {
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
