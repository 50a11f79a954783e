//! Nobody uses the memory that the owner of a team lends after the owner went on, and the owner sees all writes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::cell::UnsafeCell;
use loom::thread;

use crate::Checks;
use crate::exec::threads::OwnTeam;
use crate::base::sync::{AtomicUsize, Ordering};

pub const CHECKS: Checks = &[
    ("one helper", None, || each_piece_is_done_once(1, 3)),
    ("two helpers", Some(3), || each_piece_is_done_once(2, 2)),
    ("a helper that was invited by another", Some(2), || each_piece_is_done_once(3, 2)),
    ("a team that opens again", Some(3), a_team_opens_again),
    ("a helper's panic", None, a_helper_s_panic_reaches_the_owner),
];

/// The lent memory. Loom fails if two threads use a piece without synchronisation.
struct Lent {
    next: AtomicUsize,
    pieces: Vec<UnsafeCell<u32>>,
}

// SAFETY: `next` gives each piece to one thread.
unsafe impl Sync for Lent {}

impl Lent {
    fn new(pieces: usize) -> Self {
        let pieces = (0..pieces).map(|_| UnsafeCell::new(0)).collect();
        Self { next: AtomicUsize::new(0), pieces }
    }

    fn work(&self) {
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            // SAFETY: loom fails where another thread is here, or was without this one knowing of it.
            piece.with_mut(|count| unsafe { *count += 1 });
        }
    }
}

fn each_piece_is_done_once(helpers: usize, pieces: usize) {
    lend(&mut OwnTeam::new(), helpers, pieces);
}

/// The memory of the first work is gone by the second.
fn a_team_opens_again() {
    let mut owner = OwnTeam::new();
    (0..2).for_each(|_| lend(&mut owner, 1, 2));
}

fn lend(owner: &mut OwnTeam, helpers: usize, pieces: usize) {
    let lent = Lent::new(pieces);
    owner.together(helpers, &|| lent.work());
    for piece in lent.pieces {
        // SAFETY: as above.
        assert_eq!(piece.with_mut(|count| unsafe { *count }), 1);
    }
}

fn a_helper_s_panic_reaches_the_owner() {
    let (owner, came) = (thread::current().id(), AtomicUsize::new(0));
    let work = || {
        if thread::current().id() != owner {
            came.store(1, Ordering::Relaxed);
            // Without a message, of which there would be thousands.
            std::panic::resume_unwind(Box::new("as it should"));
        }
    };
    let done = catch_unwind(AssertUnwindSafe(|| OwnTeam::new().together(1, &work)));
    assert_eq!(done.is_err(), came.load(Ordering::Relaxed) == 1);
}
