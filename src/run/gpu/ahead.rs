//! The next run of a batch or program, encoded while the device works on the last one: encoding is an eighth of what a
//! small run takes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Shared;
use super::trip::{Job, Prepared};

/// Memory that a run encoded ahead may hold.
const MOST_BYTES: u64 = 8 << 20;
/// Runs of a device that may be encoded ahead.
const MOST_RUNS: usize = 16;
/// Runs encoded in vain, from which on a program's are no longer.
const MOST_WASTED: u32 = 2;

/// At most one run of a program.
#[derive(Default)]
pub(super) struct Ahead {
    next: Mutex<Option<Next>>,
    wasted: AtomicU32,
}

struct Next {
    prepared: Prepared,
    /// The blocks of the residents that it binds.
    residents: Vec<u64>,
    /// Counts the runs of the device.
    _count: Arc<()>,
}

impl Ahead {
    /// The run that was encoded ahead, if it is what `job` asks for.
    pub fn take(&self, job: &Job) -> Option<Prepared> {
        let next = self.next().take()?;
        if next.residents == residents(job) {
            return Some(next.prepared);
        }
        self.wasted.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Whether a run was encoded ahead.
    pub fn is_ready(&self) -> bool {
        self.next().is_some()
    }

    fn put(&self, next: Next) {
        *self.next() = Some(next);
    }

    fn next(&self) -> MutexGuard<'_, Option<Next>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Encodes the next run of the program of `job`, of which the last one held `bytes` and moved nothing between
    /// host and device.
    pub fn look_ahead(self: &Arc<Self>, job: &Job, bytes: u64) {
        let ahead = &job.kernels.ahead;
        let few = Arc::strong_count(&self.ahead) <= MOST_RUNS;
        let pays = ahead.wasted.load(Ordering::Relaxed) < MOST_WASTED;
        if bytes > MOST_BYTES || !few || !pays {
            return;
        }
        // What fails here fails again, and is told, when the run is asked for.
        let Ok(prepared) = self.prepare(job) else { return };
        let _count = Arc::clone(&self.ahead);
        ahead.put(Next { prepared, residents: residents(job), _count });
    }
}

fn residents(job: &Job) -> Vec<u64> {
    job.residents.iter().map(|resident| resident.lease.id).collect()
}
