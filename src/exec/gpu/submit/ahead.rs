//! The next run of a batch or program, encoded while the device works on the last one: encoding is an eighth of what a
//! small run takes.
//!
//! What a small run needs is held for the next one. That of a large one stays with the pool, where others may have it:
//! the run is encoded for the blocks that will lie idle if nobody else asks for them, and thrown away if somebody did.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use super::encode::value;
use super::resident::DeviceBuffer;
use crate::base::sync::{Mutex, MutexGuard};
use crate::exec::gpu::compile::kernels::Kernels;
use crate::exec::gpu::driver::driver_lock::Caller;
use crate::exec::gpu::driver::reaper::drop_here;
use crate::exec::gpu::memory::pool::Lease;
use crate::exec::gpu::submit::job::{Job, Prepared};
use crate::exec::gpu::{GpuCounts, Shared};
use crate::plan::ValueId;

/// Memory that a run encoded ahead may hold.
const MOST_BYTES: u64 = 8 << 20;
/// Runs of a device that may be encoded ahead.
const MOST_RUNS: usize = 16;
/// Runs encoded in vain, from which on a program's are no longer.
const MOST_WASTED: u32 = 2;

/// At most one run of a program.
#[derive(Default)]
pub(crate) struct Ahead {
    next: Mutex<Option<Next>>,
    /// What the last run kept.
    kept: Mutex<Vec<Weak<DeviceBuffer>>>,
    wasted: AtomicU32,
    /// Whether the last run should have held memory for the next one, and none lay idle.
    short: AtomicBool,
}

struct Next {
    prepared: Prepared,
    /// The blocks of the residents that it binds.
    residents: Vec<u64>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let next = self.next.get_mut();
        next.take().into_iter().for_each(drop_here);
    }
}

impl Ahead {
    /// The run that was encoded ahead, if it is what `job` asks for and its memory is there.
    pub fn take(&self, job: &Job, shared: &Shared) -> Option<Prepared> {
        let Next { prepared, residents } = self.next().take()?;
        if residents == blocks(job) && shared.pool.claim(prepared.leases()) {
            return Some(prepared);
        }
        self.wasted.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Whether a run was encoded ahead.
    fn is_there(&self) -> bool {
        self.next().is_some()
    }

    /// Whether a run was encoded ahead and holds its memory.
    pub fn is_ready(&self) -> bool {
        self.next().as_ref().is_some_and(|next| next.prepared.leases().all(Lease::is_lent))
    }

    /// Whether the next run should be launched where memory may be allocated, for the run after it.
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Throws the run away if it was encoded for one of the blocks `freed`, or binds one as a resident.
    fn forget(&self, freed: &[u64]) {
        let lost = self.next().take_if(|Next { prepared, residents }| {
            let leased = prepared.leases().map(|lease| &lease.id);
            leased.chain(&*residents).any(|id| freed.contains(id))
        });
        drop(lost);
    }

    fn next(&self) -> MutexGuard<'_, Option<Next>> {
        self.next.lock()
    }

    /// Notes what a run kept. MappedAfter what is left of what the one before did.
    fn follow(&self, kept: &[Arc<DeviceBuffer>]) -> Vec<Weak<DeviceBuffer>> {
        let mut last = self.kept.lock();
        std::mem::replace(&mut *last, kept.iter().map(Arc::downgrade).collect())
    }
}

/// The programs of a device of which a run may be encoded ahead.
#[derive(Default)]
pub(crate) struct Programs(Mutex<Vec<Weak<Kernels>>>);

impl Programs {
    fn list(&self) -> MutexGuard<'_, Vec<Weak<Kernels>>> {
        self.0.lock()
    }

    fn all(&self) -> Vec<Arc<Kernels>> {
        self.list().iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether one of `kernels` may be among them, which then is.
    fn admit(&self, kernels: &Arc<Kernels>) -> bool {
        let is_it = |it: &Weak<Kernels>| std::ptr::eq(it.as_ptr(), Arc::as_ptr(kernels));
        if self.list().iter().any(is_it) {
            return true;
        }
        let all = self.all();
        let with: Vec<_> =
            all.iter().filter(|kernels| kernels.ahead.is_there()).map(Arc::as_ptr).collect();
        let mut list = self.list();
        if list.len() >= MOST_RUNS {
            list.retain(|it| with.contains(&it.as_ptr()));
        }
        let has_room = list.len() < MOST_RUNS;
        if has_room {
            list.push(Arc::downgrade(kernels));
        }
        has_room
    }

    /// Throws away what was encoded for the blocks `freed`, whose memory it would keep.
    pub fn forget(&self, freed: &[u64]) {
        self.all().iter().for_each(|kernels| kernels.ahead.forget(freed));
    }

    /// How many runs are encoded ahead.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.all().iter().filter(|kernels| kernels.ahead.is_there()).count()
    }
}

impl Shared {
    /// Encodes the next run of the program of `job`, of which the last one took `bytes`, kept `kept` and moved no data
    /// between host and device. Allocates nothing on a thread that is awaited: where memory is to be held and none lies
    /// idle, the next run is launched elsewhere.
    pub fn look_ahead(
        self: &Arc<Self>,
        job: &Job,
        bytes: u64,
        kept: &[Arc<DeviceBuffer>],
        thread: Caller,
    ) {
        let ahead = &job.kernels.ahead;
        let before = ahead.follow(kept);
        let is_small = bytes <= MOST_BYTES;
        let pays = ahead.wasted.load(Ordering::Relaxed) < MOST_WASTED;
        ahead.short.store(false, Ordering::Relaxed);
        if !pays || !self.ahead.admit(&job.kernels) {
            return;
        }
        // Held meanwhile: a block that came back now would be leased for something else of the same run.
        let before: Vec<_> = before.iter().map(Weak::upgrade).collect();
        let place = if is_small { &[] } else { &before[..] };
        if thread == Caller::AsyncTask && !self.has_room_beside(job, place) {
            ahead.short.store(is_small, Ordering::Relaxed);
            return;
        }
        let room = if is_small { None } else { self.room_to_come(job, &before) };
        if !is_small && room.is_none() {
            return;
        }
        // What fails here fails again, and is told, when the run is asked for.
        let Ok(prepared) = self.prepare(job, room) else {
            ahead.wasted.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if !is_small {
            Lease::give_up_all(prepared.leases());
        }
        *ahead.next() = Some(Next { prepared, residents: blocks(job) });
    }

    /// Whether all that a run of `job` takes lies idle but what is in `place`.
    fn has_room_beside(&self, job: &Job, place: &[Option<Arc<DeviceBuffer>>]) -> bool {
        let Some(needs) = job.kernels.needs.get() else { return false };
        if place.is_empty() {
            return self.pool.has(needs);
        }
        let mut needs = needs.clone();
        for buffer in place.iter().flatten() {
            if let Some(number) = needs.get_mut(&buffer.lease.class()) {
                *number = number.saturating_sub(1);
            }
        }
        self.pool.has(&needs)
    }

    /// Room for what the next run keeps: where the run `before` the last one put it, of which whoever keeps the results
    /// of the last in their place lets go when that has ended. None where the last run binds one of them: no kernel
    /// reads and writes one block.
    fn room_to_come(
        &self,
        job: &Job,
        before: &[Option<Arc<DeviceBuffer>>],
    ) -> Option<Vec<Arc<DeviceBuffer>>> {
        let is_bound = |id| job.residents.iter().any(|resident| resident.lease.id == id);
        let room = |(at, id): (usize, &ValueId)| {
            if let Some(before) = before.get(at)? {
                return (!is_bound(before.lease.id)).then(|| Arc::new(before.again()));
            }
            let value = value(&job.plan, id.index()).ok()?;
            let (dtype, elements) = (value.dtype, value.shape.elements());
            let mut counts = GpuCounts::default();
            DeviceBuffer::lease(self, dtype, elements, &mut counts).ok().map(Arc::new)
        };
        job.plan.keeps.iter().enumerate().map(room).collect()
    }
}

fn blocks(job: &Job) -> Vec<u64> {
    job.residents.iter().map(|resident| resident.lease.id).collect()
}
