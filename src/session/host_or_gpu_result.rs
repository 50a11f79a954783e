//! One result of a run, on the host or on the GPU.

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;

use crate::base::dtype::Element;
use crate::base::future::{BoxFuture, yield_now};
use crate::base::trace::{OFF, stage};
use crate::error::DeviceError;
use crate::exec::gpu::Download;
use crate::exec::memory::{self, LARGE_RESULT};
use crate::exec::threads::off_thread;
use crate::exec::{HostBuffer, HostPool};

/// Bytes that a future copies before it lets other tasks run: a millisecond or two.
pub(crate) const STRIDE: usize = 32 << 20;

/// A result on the host, or in memory that a GPU wrote and the host reads.
pub(crate) enum HostOrGpuResult {
    Host(Arc<HostBuffer>),
    Gpu(Download),
}

impl HostOrGpuResult {
    fn len(&self) -> usize {
        match self {
            Self::Host(buffer) => buffer.len(),
            Self::Gpu(download) => download.len(),
        }
    }

    /// The elements in host memory, copied on another thread if they are many and lie in a GPU's.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if the host has no such memory.
    pub async fn into_host(self) -> Result<Arc<HostBuffer>, DeviceError> {
        match self {
            Self::Host(buffer) => Ok(buffer),
            Self::Gpu(download) if download.bytes() < LARGE_RESULT => {
                download.to_host().map(Arc::new)
            }
            Self::Gpu(download) => off_thread(move || download.to_host()).await.map(Arc::new),
        }
    }

    /// The elements in a vector, copied on another thread if they are many.
    pub async fn into_vec<T: Element>(self) -> Vec<T> {
        let elements = self.len();
        if elements * size_of::<T>() < LARGE_RESULT {
            return stage!(OFF, "download", elements = elements).of(|| self.to_vec());
        }
        let copied = copied(elements, Box::new(move || Box::new(self.to_vec::<T>()))).await;
        copied.downcast().map_or_else(|_| unreachable!("`to_vec` makes it"), |values| *values)
    }

    /// As [`into_vec`](Self::into_vec), without a copy where the result lies on the host in 32-bit elements, fills most
    /// of its memory, and has no holder but `pool`. The pool then gives the memory away.
    pub async fn into_vec_without_copy<T: Element>(self, pool: &HostPool) -> Vec<T> {
        let shared = match self {
            Self::Host(buffer) if buffer.becomes_vec::<T>() => match pool.hand_over(buffer) {
                Ok(own) => return own.into_vec(),
                Err(shared) => Self::Host(shared),
            },
            copied => copied,
        };
        shared.into_vec().await
    }

    /// The elements in a vector, copied by this thread and others.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        match self {
            Self::Host(buffer) => buffer.to_vec(),
            Self::Gpu(download) => download.to_vec(),
        }
    }

    /// The elements where they lie; `None` if they lie there in another form than a slice of `T`.
    pub fn in_place<T: Element>(&self) -> Option<&[T]> {
        match self {
            Self::Host(buffer) => buffer.as_slice(),
            Self::Gpu(download) => download.in_place(),
        }
    }

    /// Copies as many elements as `out` has, from the element `start`.
    pub fn copy_out<T: Element>(&self, start: usize, out: &mut [T]) {
        match self {
            Self::Host(buffer) => {
                let all = buffer.as_slice::<T>().unwrap_or_default();
                memory::copy(&all[start..start + out.len()], out);
            }
            Self::Gpu(download) => download.copy_out(start, out),
        }
    }

    /// Copies all elements to `out`, and lets other tasks run now and then.
    pub async fn copy_yielding<T: Element>(&self, out: &mut [T]) {
        let stage = stage!(OFF, "download", elements = out.len());
        let copying = async {
            let stride = STRIDE / size_of::<T>();
            for (index, part) in out.chunks_mut(stride).enumerate() {
                if index > 0 {
                    yield_now().await;
                }
                self.copy_out(index * stride, part);
            }
        };
        stage.over(pin!(copying)).await;
    }
}

type AnyBox = Box<dyn Any + Send>;

/// The result of `copy`, which another thread makes. Boxed, so that this crate compiles the copying code, not the user's.
fn copied(elements: usize, copy: Box<dyn FnOnce() -> AnyBox + Send>) -> BoxFuture<'static, AnyBox> {
    let stage = stage!(OFF, "download", elements = elements);
    Box::pin(async move { stage.over(pin!(off_thread(copy))).await })
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::base::dtype::DType;

    #[tokio::test]
    async fn what_is_copied_anyway_stays_in_the_pool() {
        let pool = HostPool::default();
        let given = |buffer: HostBuffer| {
            let buffer = Arc::new(buffer);
            pool.give(Arc::clone(&buffer));
            HostOrGpuResult::Host(buffer)
        };
        let halves = given(HostBuffer::from_slice(&[f16::ONE; 100]));
        assert_eq!(halves.into_vec_without_copy::<f16>(&pool).await, [f16::ONE; 100]);
        let roomy = given(HostBuffer::recycled(DType::U32, 10, vec![7; 150]));
        assert_eq!(roomy.into_vec_without_copy::<u32>(&pool).await, [7; 10]);
        let idle = pool.counts().idle_bytes;
        assert_eq!(idle, 200 + 600);
        let words = given(HostBuffer::from_slice(&[3_u32; 100]));
        assert_eq!(words.into_vec_without_copy::<u32>(&pool).await, [3; 100]);
        assert_eq!(pool.counts().idle_bytes, idle);
    }
}
