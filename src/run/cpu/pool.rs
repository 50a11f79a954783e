//! Host memory that is used again by later runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::dtype::{DType, Element};
use crate::error::DeviceError;
use crate::run::janitor::{self, Sweep};
use crate::run::memory::MemoryCounts;
use crate::run::{HostBuffer, memory};

/// Bytes that the pool holds on to at most.
const BUDGET: usize = 1 << 30;
/// Buffers that the pool knows at most, all of which it looks through for one that fits. Where data comes in vectors of the user's
/// own, every batch leaves one more than it took.
const MOST: usize = 1024;

/// Buffers of earlier runs. Results are kept too, and used again once their last other holder
/// is gone.
#[derive(Debug, Default)]
pub(crate) struct CpuPool(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The oldest first.
    buffers: Vec<Arc<HostBuffer>>,
    bytes: usize,
    /// Buffers at the start of the list that were there at the last sweep.
    swept: usize,
    counts: MemoryCounts,
}

impl CpuPool {
    /// A pool that frees what was not used for a while.
    pub fn swept() -> Arc<Self> {
        let pool = Arc::new(Self::default());
        janitor::watch(Arc::downgrade(&pool) as Weak<dyn Sweep>);
        pool
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for at least `words` words, and not for many times as many.
    pub fn take(&self, words: usize) -> Option<Vec<u32>> {
        if words == 0 {
            return None;
        }
        let mut kept = self.kept();
        let fits = |buffer: &Arc<HostBuffer>| {
            let capacity = buffer.capacity();
            Arc::strong_count(buffer) == 1 && (words..=words.saturating_mul(4)).contains(&capacity)
        };
        let buffers = kept.buffers.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let best = buffers.min_by_key(|(_, buffer)| buffer.capacity()).map(|(at, _)| at);
        let taken = best.and_then(|at| Arc::try_unwrap(kept.remove(at)).ok());
        kept.counts.hits += u64::from(taken.is_some());
        kept.counts.misses += u64::from(taken.is_none());
        taken.map(HostBuffer::into_words)
    }

    /// A buffer of `len` elements of type `dtype`, which are [unspecified](HostBuffer::recycled), and whether its memory
    /// was used before.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if the host has no such memory, without what lies idle here either.
    pub fn buffer(&self, dtype: DType, len: usize) -> Result<(HostBuffer, bool), DeviceError> {
        if let Some(words) = self.take(HostBuffer::words_for(dtype, len)) {
            return Ok((HostBuffer::recycled(dtype, len, words), true));
        }
        let fresh = HostBuffer::try_zeroed(dtype, len).or_else(|_| {
            self.trim();
            HostBuffer::try_zeroed(dtype, len)
        });
        Ok((fresh?, false))
    }

    /// A buffer of `data`, in memory that was used before if there is any.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn filled<T: Element>(&self, data: &[T]) -> Result<HostBuffer, DeviceError> {
        self.holding(T::DTYPE, bytemuck::cast_slice(data))
    }

    /// As [`filled`](Self::filled), with the bytes of elements of type `dtype`.
    pub fn holding(&self, dtype: DType, bytes: &[u8]) -> Result<HostBuffer, DeviceError> {
        let (mut buffer, _) = self.buffer(dtype, bytes.len() / dtype.size())?;
        memory::copy(bytes, buffer.bytes_mut());
        Ok(buffer)
    }

    /// Keeps `buffer` for a later run; the oldest make room.
    pub fn give(&self, buffer: Arc<HostBuffer>) {
        if buffer.capacity() == 0 {
            return;
        }
        let mut kept = self.kept();
        kept.bytes += 4 * buffer.capacity();
        kept.buffers.push(buffer);
        kept.counts.peak_bytes = kept.counts.peak_bytes.max(kept.bytes as u64);
        while kept.bytes > BUDGET || kept.buffers.len() > MOST {
            kept.remove(0);
        }
    }

    /// `buffer` for good, if nobody but its caller and the pool holds it.
    ///
    /// # Errors
    /// `buffer`, if somebody else does.
    pub fn hand_over(&self, buffer: Arc<HostBuffer>) -> Result<HostBuffer, Arc<HostBuffer>> {
        let mut kept = self.kept();
        let own = kept.buffers.iter().rposition(|kept| Arc::ptr_eq(kept, &buffer));
        if let Some(at) = own.filter(|_| Arc::strong_count(&buffer) == 2) {
            kept.remove(at);
        }
        Arc::try_unwrap(buffer)
    }

    /// What the pool counts. Live is what results lie in that somebody holds; what runs write to while they run is not
    /// known here.
    pub fn counts(&self) -> MemoryCounts {
        let kept = self.kept();
        let live = kept.buffers.iter().filter(|buffer| Arc::strong_count(buffer) > 1);
        let live_bytes = live.map(|buffer| 4 * buffer.capacity() as u64).sum();
        MemoryCounts { live_bytes, idle_bytes: kept.bytes as u64 - live_bytes, ..kept.counts }
    }

    /// Forgets all buffers.
    pub fn trim(&self) {
        let mut kept = self.kept();
        (kept.bytes, kept.swept) = (0, 0);
        kept.buffers.clear();
    }
}

impl Kept {
    fn remove(&mut self, at: usize) -> Arc<HostBuffer> {
        let buffer = self.buffers.remove(at);
        self.bytes -= 4 * buffer.capacity();
        self.swept -= usize::from(at < self.swept);
        buffer
    }
}

impl Sweep for CpuPool {
    fn sweep(&self) {
        let mut kept = self.kept();
        while kept.swept > 0 {
            kept.remove(0);
        }
        kept.swept = kept.buffers.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_filled_again() {
        let pool = CpuPool::default();
        let first = pool.filled(&[1.0f32, 2.0, 3.0]).unwrap();
        let address = first.words().as_ptr();
        pool.give(Arc::new(first));
        let second = pool.filled(&[true, false, true, true, false, true]).unwrap();
        assert_eq!(second.as_slice::<bool>(), Some(&[true, false, true, true, false, true][..]));
        assert_eq!(second.words().as_ptr(), address);
        assert_eq!(pool.filled::<u32>(&[]).unwrap().len(), 0);
    }

    #[test]
    fn a_buffer_is_used_again_only_when_nobody_holds_it() {
        let pool = CpuPool::default();
        let held = Arc::new(HostBuffer::from_slice(&[1u32; 100]));
        pool.give(held.clone());
        assert!(pool.take(100).is_none());
        drop(held);
        assert!(pool.take(101).is_none(), "too small");
        assert!(pool.take(10).is_none(), "far too large");
        assert_eq!(pool.take(60).map(|words| words.len()), Some(100));
        assert!(pool.take(60).is_none());
        pool.give(Arc::new(HostBuffer::from_slice::<u32>(&[])));
        assert!(pool.kept().buffers.is_empty(), "nothing to use again");
    }

    #[test]
    fn a_buffer_is_handed_over_once_nobody_else_holds_it() {
        let pool = CpuPool::default();
        let held = Arc::new(HostBuffer::from_slice(&[1u32; 100]));
        pool.give(held.clone());
        let refused = pool.hand_over(held.clone()).unwrap_err();
        assert!(Arc::ptr_eq(&refused, &held) && pool.counts().live_bytes == 400);
        drop(refused);
        let address = held.words().as_ptr();
        assert_eq!(pool.hand_over(held).unwrap().words().as_ptr(), address);
        assert_eq!(pool.counts().live_bytes + pool.counts().idle_bytes, 0);
        let unknown = Arc::new(HostBuffer::from_slice(&[1u32]));
        assert_eq!(pool.hand_over(unknown).unwrap().len(), 1);
    }

    #[test]
    fn what_is_not_used_between_two_sweeps_is_freed() {
        let pool = CpuPool::default();
        let buffer = |len| Arc::new(HostBuffer::from_slice(&vec![1u32; len]));
        [100, 10_000, 1_000_000].into_iter().for_each(|len| pool.give(buffer(len)));
        let held = buffer(500);
        pool.give(held.clone());
        let counts = pool.counts();
        assert_eq!((counts.live_bytes, counts.idle_bytes), (2_000, 4 * 1_010_100));
        pool.sweep();
        assert_eq!(pool.counts(), counts, "used since the sweep before, of which there is none");
        let words = pool.take(10_000).unwrap();
        pool.give(Arc::new(HostBuffer::recycled(DType::U32, 10_000, words)));
        pool.sweep();
        let counts = pool.counts();
        assert_eq!((counts.live_bytes, counts.idle_bytes), (0, 40_000));
        assert_eq!((counts.hits, counts.misses, counts.peak_bytes), (1, 0, 4 * 1_010_600));
        assert_eq!(held.len(), 500, "its holder has it still");
        pool.sweep();
        assert_eq!(pool.counts().idle_bytes, 0);
        pool.give(buffer(5));
        pool.trim();
        assert_eq!(pool.counts().idle_bytes, 0);
    }

    #[test]
    fn the_oldest_make_room_for_more_than_the_pool_looks_through() {
        let pool = CpuPool::default();
        (0..MOST + 9).for_each(|at| pool.give(Arc::new(HostBuffer::from_slice(&[at as u32; 2]))));
        assert_eq!(pool.counts().idle_bytes, 8 * MOST as u64);
        assert_eq!(pool.take(2).unwrap()[0], 9);
    }

    /// Threads take, hold, give and hand over, while another sweeps: what somebody holds is never written by anybody else.
    #[test]
    fn no_memory_has_two_owners() {
        let pool = CpuPool::default();
        let own = |thread: u32| {
            for round in 0..3000 {
                let tag = round * 8 + thread;
                let (mut buffer, _) = pool.buffer(DType::U32, 64 + tag as usize % 3).unwrap();
                buffer.as_slice_mut::<u32>().unwrap().fill(tag);
                let held = Arc::new(buffer);
                pool.give(Arc::clone(&held));
                std::thread::yield_now();
                let intact = |buffer: &HostBuffer| {
                    buffer.as_slice::<u32>().unwrap().iter().all(|&x| x == tag)
                };
                assert!(intact(&held), "written while it was held");
                if round % 2 == 0 {
                    let mut owned = pool.hand_over(held).expect("nobody else has it");
                    assert!(intact(&owned), "written while it was handed over");
                    owned.as_slice_mut::<u32>().unwrap().fill(u32::MAX);
                }
            }
        };
        std::thread::scope(|scope| {
            let own = &own;
            let owners: Vec<_> = (0..3).map(|thread| scope.spawn(move || own(thread))).collect();
            while !owners.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                pool.sweep();
                assert!(pool.counts().live_bytes <= 3 * 4 * 256);
                std::thread::yield_now();
            }
        });
        assert_eq!(pool.counts().live_bytes, 0);
        pool.trim();
        assert_eq!(pool.counts().idle_bytes, 0);
    }
}
