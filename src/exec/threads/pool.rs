//! The threads that a team has, and how they wait for each other.

use std::num::NonZero;
use std::time::Duration;
use std::{fs, thread};

// Teams name the helpers here, since tests replace this file.
pub(super) use super::helpers::{Help, spawn};
use crate::base::clock::Instant;
use crate::base::sync::hint;

/// Time for which a thread spins before it sleeps. To wake a thread takes some 5 µs, and 50 on a virtual machine. Under
/// miri a few steps of another thread take longer than that.
const SPIN_TIME: Duration = Duration::from_micros(if cfg!(miri) { 50_000 } else { 50 });
/// Looks between two looks at the clock, which take as long as the processor makes a look: 10 to 40 ns.
const LOOKS: usize = 16;

/// Number of threads that runs are shared out over.
pub(crate) fn count() -> usize {
    rayon::current_num_threads()
}

/// The physical cores: the logical ones, or half of them where a core runs two threads. Systems other than Linux do not say,
/// and count as such.
pub(super) fn whole_cores() -> usize {
    let several = fs::read_to_string("/sys/devices/system/cpu/smt/active");
    let threads = if several.is_ok_and(|active| active.trim() == "0") { 1 } else { 2 };
    thread::available_parallelism().map_or(1, NonZero::get).div_ceil(threads)
}

/// Spins until `happened`, but not for long. Returns whether it did.
pub(super) fn comes_soon(happened: impl Fn() -> bool) -> bool {
    let mut begun = None;
    loop {
        for _ in 0..LOOKS {
            if happened() {
                return true;
            }
            hint::spin_loop();
        }
        // Most waits end before the first look at the clock.
        if begun.get_or_insert_with(Instant::now).elapsed() >= SPIN_TIME {
            return false;
        }
    }
}
