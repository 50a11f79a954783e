//! Host memory that later runs reuse.

mod state;

use self::state::{Freed, PoolState, class};
use crate::base::dtype::{DType, Element};
use crate::base::process::is_forked_child;
use crate::base::sync::{Arc, Mutex};
use crate::error::DeviceError;
use crate::exec::janitor::Sweep;
use crate::exec::memory::MemoryCounts;
use crate::exec::{Allocator, HostBuffer, memory, threads};

/// Buffers of earlier runs. The pool holds results too, and reuses them once their last other holder is gone.
#[derive(Debug, Default)]
pub(crate) struct HostPool(Mutex<PoolState>);

impl HostPool {
    /// The result of `work` on the locked state; `None` in a forked child where the state is locked, perhaps by a thread
    /// that the child does not have.
    fn locked<R>(&self, work: impl FnOnce(&mut PoolState) -> R) -> Option<R> {
        let mut state = if is_forked_child() { self.0.try_lock()? } else { self.0.lock() };
        Some(work(&mut state))
    }

    /// Lets `choose` remove buffers, and frees them after the lock is released, since freeing takes long.
    fn free_chosen(&self, choose: impl FnOnce(&mut PoolState, &mut Freed)) {
        let mut freed = Freed::new();
        self.locked(|state| choose(state, &mut freed));
    }

    /// Takes memory for at least `words` words, and for at most four times as many.
    pub fn take(&self, words: usize) -> Option<Vec<u32>> {
        if words == 0 {
            return None;
        }
        let taken = self.locked(|state| {
            let taken = state.idle(words);
            state.counts.hits += u64::from(taken.is_some());
            state.counts.misses += u64::from(taken.is_none());
            taken
        });
        taken.flatten().and_then(|buffer| Arc::try_unwrap(buffer).ok()).map(HostBuffer::into_words)
    }

    /// Returns a buffer of `len` elements of type `dtype`, and whether its memory was used before. The elements are
    /// [unspecified](HostBuffer::recycled).
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if the host lacks the memory even once the pool's idle memory is freed.
    pub fn buffer(&self, dtype: DType, len: usize) -> Result<(HostBuffer, bool), DeviceError> {
        self.buffer_with_room(dtype, len, 0)
    }

    /// As [`buffer`](Self::buffer), in memory of at least `room` words.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn buffer_with_room(
        &self,
        dtype: DType,
        len: usize,
        room: usize,
    ) -> Result<(HostBuffer, bool), DeviceError> {
        let needed = HostBuffer::words_for(dtype, len).max(room);
        if let Some(words) = self.take(needed) {
            return Ok((HostBuffer::recycled(dtype, len, words), true));
        }
        let fresh = memory::try_unspecified(needed).or_else(|_| {
            self.trim();
            memory::try_unspecified(needed)
        });
        Ok((HostBuffer::recycled(dtype, len, fresh?), false))
    }

    /// Allocates and touches a buffer of each size in `words`, and stores them for later runs. Where the host lacks the
    /// memory this stops, and the run returns the error.
    pub fn reserve(&self, words: impl Iterator<Item = usize>) {
        let touched = |words| {
            let (mut buffer, is_reused) = self.buffer(DType::U32, words).ok()?;
            if !is_reused {
                threads::touch(buffer.bytes_mut());
            }
            Some(Arc::new(buffer))
        };
        let buffers: Vec<_> = words.map_while(touched).collect();
        buffers.into_iter().for_each(|buffer| self.give(buffer));
    }

    /// Returns a buffer of `data`, in reused memory if there is any.
    pub fn filled<T: Element>(&self, data: &[T]) -> Result<HostBuffer, DeviceError> {
        self.holding(T::DTYPE, bytemuck::cast_slice(data))
    }

    /// As [`filled`](Self::filled), for the bytes of elements of type `dtype`.
    pub fn holding(&self, dtype: DType, bytes: &[u8]) -> Result<HostBuffer, DeviceError> {
        let (mut buffer, _) = self.buffer(dtype, bytes.len() / dtype.size())?;
        memory::copy(bytes, buffer.bytes_mut());
        Ok(buffer)
    }

    /// Stores `buffer` for a later run, and removes the oldest buffers to make room. A vector of the user is stored only
    /// in return for memory that was [handed over](Self::hand_over). Otherwise the vectors would pile up if every run
    /// brings one.
    pub fn give(&self, buffer: Arc<HostBuffer>) {
        if buffer.capacity() == 0 {
            return;
        }
        self.free_chosen(|state, freed| {
            if buffer.allocator() == Allocator::Caller
                && !state.replaces_handed_over(class(buffer.capacity()))
            {
                freed.push(buffer);
                return;
            }
            let class = state.add(buffer);
            state.make_room(class, freed);
        });
    }

    /// Gives `buffer` away for good, if nobody but the caller and the pool holds it.
    ///
    /// # Errors
    /// `buffer` itself, if somebody else holds it.
    pub fn hand_over(&self, buffer: Arc<HostBuffer>) -> Result<HostBuffer, Arc<HostBuffer>> {
        self.locked(|state| {
            let class = class(buffer.capacity());
            let entries = state.classes.get(class);
            let own =
                entries.and_then(|all| all.iter().rposition(|it| Arc::ptr_eq(&it.buffer, &buffer)));
            if let Some(at) = own.filter(|_| Arc::strong_count(&buffer) == 2) {
                state.remove(class, at);
                state.handed_over[class] += 1;
            }
        });
        Arc::try_unwrap(buffer)
    }

    /// The counters of the pool. Live bytes belong to results that somebody holds. The pool does not know the buffers
    /// that runs write to while they run.
    pub fn counts(&self) -> MemoryCounts {
        let counts = self.locked(|state| {
            let entries = state.classes.iter().flatten();
            let live = entries.filter(|entry| Arc::strong_count(&entry.buffer) > 1);
            let live_bytes = live.map(|entry| 4 * entry.capacity as u64).sum();
            MemoryCounts { live_bytes, idle_bytes: state.bytes as u64 - live_bytes, ..state.counts }
        });
        counts.unwrap_or_default()
    }

    pub fn trim(&self) {
        self.free_chosen(|state, freed| state.remove_while(|_| true, freed));
    }
}

impl Sweep for HostPool {
    fn sweep(&self) {
        self.free_chosen(|state, freed| {
            let now = state.given;
            let swept = std::mem::replace(&mut state.swept, now);
            state.remove_while(|entry| entry.age < swept, freed);
            state.handed_over.fill(0);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::state::MOST_BUFFERS;
    use super::*;

    #[test]
    fn memory_is_filled_again() {
        let pool = HostPool::default();
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
        let pool = HostPool::default();
        let held = Arc::new(HostBuffer::from_slice(&[1u32; 100]));
        pool.give(held.clone());
        assert!(pool.take(100).is_none());
        drop(held);
        assert!(pool.take(101).is_none(), "too small");
        assert!(pool.take(10).is_none(), "far too large");
        assert_eq!(pool.take(60).map(|words| words.len()), Some(100));
        assert!(pool.take(60).is_none());
        pool.give(Arc::new(HostBuffer::from_slice::<u32>(&[])));
        assert_eq!(pool.0.lock().bytes, 0, "nothing to use again");
    }

    #[test]
    fn a_buffer_is_handed_over_once_nobody_else_holds_it() {
        let pool = HostPool::default();
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
    fn vectors_of_the_user_s_own_are_stored_in_return_for_memory_that_was_handed_over() {
        let pool = HostPool::default();
        let idle = || pool.counts().idle_bytes;
        let own = |len| Arc::new(HostBuffer::try_from_vec(vec![1u32; len]).unwrap());
        let hand_over = |len| {
            let held = Arc::new(HostBuffer::from_slice(&vec![1u32; len]));
            pool.give(Arc::clone(&held));
            drop(pool.hand_over(held).unwrap());
        };
        pool.give(own(100));
        assert_eq!(idle(), 0, "nothing was handed over");
        hand_over(100);
        (0..3).for_each(|_| pool.give(own(1000)));
        assert_eq!(idle(), 0, "far larger than what was handed over");
        (0..3).for_each(|_| pool.give(own(100)));
        assert_eq!(idle(), 400, "one for one");
        let words = pool.take(100).unwrap();
        pool.give(Arc::new(HostBuffer::recycled(DType::U32, 100, words)));
        assert_eq!(idle(), 400, "the pool's own by now");
        pool.trim();
        hand_over(100);
        pool.sweep();
        pool.give(own(100));
        assert_eq!(idle(), 0, "too long ago");
    }

    #[test]
    fn what_is_not_used_between_two_sweeps_is_freed() {
        let pool = HostPool::default();
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
        let pool = HostPool::default();
        (0..MOST_BUFFERS + 9)
            .for_each(|at| pool.give(Arc::new(HostBuffer::from_slice(&[at as u32; 2]))));
        assert_eq!(pool.counts().idle_bytes, 8 * MOST_BUFFERS as u64);
        let mut left: Vec<u32> = (0..MOST_BUFFERS).map(|_| pool.take(2).unwrap()[0]).collect();
        left.sort_unstable();
        assert_eq!(left, (9..MOST_BUFFERS as u32 + 9).collect::<Vec<_>>());
        assert!(pool.take(2).is_none());
    }

    /// Threads take, hold, give and hand over buffers, while another thread sweeps. A buffer that somebody holds is
    /// never written by anybody else.
    #[test]
    fn no_memory_has_two_owners() {
        let pool = HostPool::default();
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
