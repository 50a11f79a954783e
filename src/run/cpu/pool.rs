//! Host memory that is used again by later runs.

use std::sync::{Arc, Mutex, PoisonError};

use crate::dtype::{DType, Element};
use crate::run::{HostBuffer, memory};

/// Bytes that the pool holds on to at most.
const BUDGET: usize = 1 << 30;

/// Buffers of earlier runs. Results are kept too, and used again once their last other holder
/// is gone.
#[derive(Debug, Default)]
pub(crate) struct CpuPool(Mutex<Vec<Arc<HostBuffer>>>);

impl CpuPool {
    /// Memory for at least `words` words, and not for many times as many.
    pub fn take(&self, words: usize) -> Option<Vec<u32>> {
        if words == 0 {
            return None;
        }
        let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &&Arc<HostBuffer>| {
            let capacity = buffer.capacity();
            Arc::strong_count(buffer) == 1 && (words..=words.saturating_mul(4)).contains(&capacity)
        };
        let best = buffers.iter().filter(fits).min_by_key(|buffer| buffer.capacity())?;
        let best = buffers.iter().position(|buffer| Arc::ptr_eq(buffer, best))?;
        Arc::try_unwrap(buffers.swap_remove(best)).ok().map(HostBuffer::into_words)
    }

    /// A buffer of `data`, in memory that was used before if there is any.
    pub fn filled<T: Element>(&self, data: &[T]) -> HostBuffer {
        self.holding(T::DTYPE, bytemuck::cast_slice(data))
    }

    /// As [`filled`](Self::filled), with the bytes of elements of type `dtype`.
    pub fn holding(&self, dtype: DType, bytes: &[u8]) -> HostBuffer {
        let len = bytes.len() / dtype.size();
        let words = self.take(HostBuffer::words_for(dtype, len));
        let mut buffer = HostBuffer::recycled(dtype, len, words.unwrap_or_default());
        memory::copy(bytes, buffer.bytes_mut());
        buffer
    }

    /// Keeps `buffer` for a later run; the oldest make room.
    pub fn give(&self, buffer: Arc<HostBuffer>) {
        if buffer.capacity() == 0 {
            return;
        }
        let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffers.push(buffer);
        let mut held: usize = buffers.iter().map(|buffer| 4 * buffer.capacity()).sum();
        while held > BUDGET {
            held -= 4 * buffers.remove(0).capacity();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_filled_again() {
        let pool = CpuPool::default();
        let first = pool.filled(&[1.0f32, 2.0, 3.0]);
        let address = first.words().as_ptr();
        pool.give(Arc::new(first));
        let second = pool.filled(&[true, false, true, true, false, true]);
        assert_eq!(second.as_slice::<bool>(), Some(&[true, false, true, true, false, true][..]));
        assert_eq!(second.words().as_ptr(), address);
        assert_eq!(pool.filled::<u32>(&[]).len(), 0);
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
        assert!(pool.0.lock().unwrap().is_empty(), "nothing to use again");
    }
}
