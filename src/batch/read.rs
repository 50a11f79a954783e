//! Results: in a vector, in the caller's memory, or where they lie.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{DType, Element};
use crate::base::shape::Shape;
use crate::base::trace::{OFF, stage};
use crate::error::{DeviceError, Origin, ReadError, Result};
use crate::exec::HostBuffer;
use crate::exec::cpu::CpuPool;
#[cfg(feature = "gpu")]
use crate::exec::gpu::Download;
use crate::exec::memory::{self, LARGE_RESULT};
use crate::exec::threads::off_thread;

/// Bytes that a future copies before it lets other tasks run: a millisecond or two.
pub(super) const STRIDE: usize = 32 << 20;

/// Reading results.
impl GpuCommandBatch {
    /// A result of the last run in a vector of its own, in row-major order.
    ///
    /// Threads share the copying of a large result, and the future only waits. Most of the time goes into
    /// the fresh memory: [`read_into`](Self::read_into) memory that was used before is faster, and
    /// [`read_view`](Self::read_view) copies nothing.
    ///
    /// # Errors
    /// [`ReadError`] if nothing was executed since the batch changed, or `id` was not downloaded.
    pub async fn read<T: Element>(&self, id: impl Into<BufferId<T>>) -> Result<Vec<T>> {
        Ok(self.found(id.into())?.into_vec().await)
    }

    /// Copies a result of the last run to `out`, in row-major order.
    ///
    /// Threads share the copying of a large result; the future does its part of that where it is awaited, and
    /// lets other tasks run every few milliseconds.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`ReadError::Length`] if `out` has not as many elements as the result.
    pub async fn read_into<T: Element>(
        &self,
        id: impl Into<BufferId<T>>,
        out: &mut [T],
    ) -> Result<()> {
        let id = id.into();
        let found = self.found(id)?;
        let node = id.node;
        {
            let recorder = self.recorder.lock();
            let recorded = recorder.recorded();
            check_length(|| recorded.origin(node), &recorded.graph[node].ty.shape, out)?;
        }
        found.copy_yielding(out).await;
        Ok(())
    }

    /// A result of the last run where that left it, in row-major order.
    ///
    /// Nothing is copied, with two exceptions: `bool`, and `f16` from a GPU that holds it in 32 bits. The view
    /// outlives the batch and further runs of it. Until it is dropped, the memory of all downloads of its
    /// run is in use, and further runs take other memory.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1.0_f32, -2.0]);
    /// let y = x.relu().id();
    /// batch.execute().await?;
    /// let view = batch.read_view(y)?;
    /// drop(batch);
    /// assert_eq!(view.iter().sum::<f32>(), 1.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_view<T: Element>(&self, id: impl Into<BufferId<T>>) -> Result<ReadView<T>> {
        Ok(self.found(id.into())?.into_view())
    }
}

/// Fails unless `out` has as many elements as `shape`, that of what is to be read.
pub(super) fn check_length<T>(
    of: impl FnOnce() -> Origin,
    shape: &Shape,
    out: &[T],
) -> Result<(), ReadError> {
    if out.len() == shape.elements() {
        return Ok(());
    }
    Err(ReadError::Length { of: of(), shape: shape.clone(), room: out.len() })
}

/// A result, wherever it lies.
pub(super) enum Found {
    Host(Arc<HostBuffer>),
    #[cfg(feature = "gpu")]
    Gpu(Download),
}

impl Found {
    fn len(&self) -> usize {
        match self {
            Self::Host(buffer) => buffer.len(),
            #[cfg(feature = "gpu")]
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
            #[cfg(feature = "gpu")]
            Self::Gpu(download) if download.bytes() < LARGE_RESULT => {
                download.to_host().map(Arc::new)
            }
            #[cfg(feature = "gpu")]
            Self::Gpu(download) => off_thread(move || download.to_host()).await.map(Arc::new),
        }
    }

    /// The elements in a vector, copied on another thread if they are many.
    pub async fn into_vec<T: Element>(self) -> Vec<T> {
        let stage = stage!(OFF, "download", elements = self.len());
        stage.over(pin!(self.copied_to_vec())).await
    }

    /// As [`into_vec`](Self::into_vec), in the memory of the result where that lies on the host, an element is a word,
    /// most of the memory is used, and nobody else holds it but `pool`, which then gives it away.
    pub async fn taken<T: Element>(self, pool: &CpuPool) -> Vec<T> {
        let shared = match self {
            Self::Host(buffer) if buffer.becomes_vec::<T>() => match pool.hand_over(buffer) {
                Ok(own) => return own.into_vec(),
                Err(shared) => Self::Host(shared),
            },
            copied => copied,
        };
        shared.into_vec().await
    }

    async fn copied_to_vec<T: Element>(self) -> Vec<T> {
        if self.len() * size_of::<T>() < LARGE_RESULT {
            return self.to_vec();
        }
        off_thread(move || self.to_vec()).await
    }

    /// The elements in a vector, copied by this thread and others.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        match self {
            Self::Host(buffer) => buffer.to_vec(),
            #[cfg(feature = "gpu")]
            Self::Gpu(download) => download.to_vec(),
        }
    }

    /// Copies as many elements as `out` has, from the element `start`.
    pub fn copy_out<T: Element>(&self, start: usize, out: &mut [T]) {
        match self {
            Self::Host(buffer) => {
                let all = buffer.as_slice::<T>().unwrap_or_default();
                memory::copy(&all[start..start + out.len()], out);
            }
            #[cfg(feature = "gpu")]
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

    /// The elements where they lie, or a copy where that is no slice of `T`.
    pub fn into_view<T: Element>(self) -> ReadView<T> {
        let in_place = match &self {
            // Bytes must be looked at to be truth values: once is enough.
            _ if T::DTYPE == DType::Bool => false,
            Self::Host(buffer) => buffer.as_slice::<T>().is_some(),
            #[cfg(feature = "gpu")]
            Self::Gpu(download) => download.in_place::<T>().is_some(),
        };
        ReadView(if in_place { Elements::InPlace(self) } else { Elements::Copied(self.to_vec()) })
    }
}

/// Lets other tasks of the same thread run.
pub(super) async fn yield_now() {
    let mut given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The elements of a result, from [`GpuCommandBatch::read_view`] or [`Resident::read_view`](crate::Resident::read_view):
/// a slice that holds on to the memory it lies in.
pub struct ReadView<T>(Elements<T>);

enum Elements<T> {
    /// Found to be a slice of `T` when the view was made.
    InPlace(Found),
    Copied(Vec<T>),
}

impl<T: Element> Deref for ReadView<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let in_place = match &self.0 {
            Elements::Copied(values) => return values,
            Elements::InPlace(Found::Host(buffer)) => buffer.as_slice(),
            #[cfg(feature = "gpu")]
            Elements::InPlace(Found::Gpu(download)) => download.in_place(),
        };
        in_place.unwrap_or_default()
    }
}

impl<T: Element> AsRef<[T]> for ReadView<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Element> fmt::Debug for ReadView<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[tokio::test]
    async fn what_is_copied_anyway_stays_in_the_pool() {
        let pool = CpuPool::default();
        let given = |buffer: HostBuffer| {
            let buffer = Arc::new(buffer);
            pool.give(Arc::clone(&buffer));
            Found::Host(buffer)
        };
        let halves = given(HostBuffer::from_slice(&[f16::ONE; 100]));
        assert_eq!(halves.taken::<f16>(&pool).await, [f16::ONE; 100]);
        let roomy = given(HostBuffer::recycled(DType::U32, 10, vec![7; 150]));
        assert_eq!(roomy.taken::<u32>(&pool).await, [7; 10]);
        let idle = pool.counts().idle_bytes;
        assert_eq!(idle, 200 + 600);
        let words = given(HostBuffer::from_slice(&[3_u32; 100]));
        assert_eq!(words.taken::<u32>(&pool).await, [3; 100]);
        assert_eq!(pool.counts().idle_bytes, idle);
    }
}
