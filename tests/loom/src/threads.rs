//! In place of the crate's `src/exec/threads/mod.rs`, whose threads are rayon's.

#[path = "../../../src/exec/threads/team.rs"]
mod team;

use std::mem::MaybeUninit;

/// Sizes are as they are: nothing is interpreted.
pub const SMALLER: usize = 1;

pub fn together(helpers: usize, work: &(impl Fn() + Sync)) {
    team::together(helpers, work);
}

/// In place of the crate's `src/exec/threads/pool.rs`.
mod pool {
    pub fn count() -> usize {
        loom::MAX_THREADS
    }

    /// A thread that looks again and again does nothing that others could see.
    pub fn comes_soon(happened: impl Fn() -> bool) -> bool {
        happened()
    }

    pub fn spawn(work: impl FnOnce() + 'static) {
        loom::thread::spawn(work);
    }
}

pub fn copy(from: &[u8], to: &mut [MaybeUninit<u8>], _: usize) {
    to.write_copy_of_slice(from);
}
