//! In place of the crate's `src/exec/threads/mod.rs`, whose threads are rayon's.

#[path = "../../../src/exec/threads/helper_delay.rs"]
mod helper_delay;
#[path = "../../../src/exec/threads/team.rs"]
mod team;

use std::mem::MaybeUninit;

pub(crate) use team::OwnTeam;

/// Sizes are as they are: nothing is interpreted.
pub const SMALLER: usize = 1;

/// In place of the crate's `src/exec/threads/pool.rs`.
mod pool {
    pub fn count() -> usize {
        loom::MAX_THREADS
    }

    /// A thread that looks again and again does nothing that others could see.
    pub fn comes_soon(happened: impl Fn() -> bool) -> bool {
        happened()
    }

    /// As in the crate's `src/exec/threads/helpers.rs`.
    pub trait Help {
        fn give(&mut self);
        fn is_wanted_soon(&self, ended: &dyn Fn() -> bool) -> bool;
    }

    /// A helper that is there once more if it is wanted.
    pub fn spawn(mut help: impl Help + 'static) {
        loom::thread::spawn(move || {
            help.give();
            if help.is_wanted_soon(&|| true) {
                help.give();
            }
        });
    }
}

pub fn copy(from: &[u8], to: &mut [MaybeUninit<u8>], _: usize) {
    to.write_copy_of_slice(from);
}

pub fn touch(memory: &mut [u8]) {
    memory.fill(0);
}
