//! Rayon's pool of threads, as a team and the queue of handed-over work use it.

pub(super) use rayon::spawn;

/// Spins of a thread that waits for others before it sleeps: some tens of microseconds.
pub(super) const LOOKS: usize = 500;

/// Number of threads that runs are shared out over.
pub(crate) fn count() -> usize {
    rayon::current_num_threads()
}
