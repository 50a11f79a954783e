//! Results: in a vector, in the caller's memory, or where they lie.

use std::fmt;
use std::ops::Deref;

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{DType, Element};
use crate::base::shape::Shape;
use crate::error::{Origin, ReadError, Result};
use crate::session::HostOrGpuResult;

/// Reading results.
impl GpuCommandBatch {
    /// A result of the last run in a vector of its own, in row-major order.
    ///
    /// Threads share the copying of a large result, and the future only waits. Most of the time goes into
    /// the fresh memory: [`read_into`](Self::read_into) memory that was used before is faster, and
    /// [`read_view`](Self::read_view) copies nothing.
    ///
    /// # Errors
    /// [`ReadError`] if nothing was executed since the batch changed, the last run failed, `id` was not downloaded, or it
    /// belongs to another batch. [`Error::Record`](crate::Error::Record) if nothing was executed, and the batch has mistakes.
    pub async fn read<T: Element>(&self, id: impl Into<BufferId<T>>) -> Result<Vec<T>> {
        Ok(self.last_result(id.into())?.into_vec().await)
    }

    /// Copies a result of the last run to `out`, in row-major order.
    ///
    /// Threads share the copying of a large result; the future does its part of that where it is awaited, and
    /// lets other tasks run every few milliseconds.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let y = batch.upload(&[1.0_f32, -2.0]).relu();
    /// batch.execute().await?;
    /// let mut out = [0.0; 2];
    /// batch.read_into(y, &mut out).await?;
    /// assert_eq!(out, [1.0, 0.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read); [`ReadError::Length`] if `out` has not as many elements as the result.
    pub async fn read_into<T: Element>(
        &self,
        id: impl Into<BufferId<T>>,
        out: &mut [T],
    ) -> Result<()> {
        let id = id.into();
        let found = self.last_result(id)?;
        {
            let recorder = self.recorder.lock();
            let recorded = recorder.recorded();
            let shape = &recorded.graph[id.node].ty.shape;
            check_length(|| recorded.origin(id.node), shape, out)?;
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
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1.0_f32, -2.0]);
    /// let y = x.relu().id();
    /// batch.execute().await?;
    /// let view = batch.read_view(y)?;
    /// drop(batch);
    /// assert_eq!(view.iter().sum::<f32>(), 1.0);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_view<T: Element>(&self, id: impl Into<BufferId<T>>) -> Result<ReadView<T>> {
        Ok(ReadView::of(self.last_result(id.into())?))
    }
}

/// Fails unless `out` has as many elements as `shape`, the shape of the value that is to be read.
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

/// The elements of a result, from [`GpuCommandBatch::read_view`] or [`Resident::read_view`](crate::Resident::read_view):
/// a slice that holds on to the memory it lies in. `Debug` prints its first elements and their number.
pub struct ReadView<T>(ViewElements<T>);

enum ViewElements<T> {
    /// Found to be a slice of `T` when the view was made.
    InPlace(HostOrGpuResult),
    Copied(Vec<T>),
}

impl<T: Element> ReadView<T> {
    /// The elements where they lie, or a copy where that is no slice of `T`.
    pub(crate) fn of(result: HostOrGpuResult) -> Self {
        // Bytes must be looked at to be truth values: once is enough.
        let is_slice = T::DTYPE != DType::Bool && result.in_place::<T>().is_some();
        let copied = |result: HostOrGpuResult| ViewElements::Copied(result.to_vec());
        Self(if is_slice { ViewElements::InPlace(result) } else { copied(result) })
    }
}

impl<T: Element> Deref for ReadView<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let in_place = match &self.0 {
            ViewElements::Copied(values) => return values,
            ViewElements::InPlace(result) => result.in_place(),
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
        const SHOWN: usize = 32;
        if self.len() <= SHOWN {
            return (**self).fmt(f);
        }
        f.debug_list().entries(&self[..SHOWN]).finish_non_exhaustive()?;
        write!(f, " ({} elements)", self.len())
    }
}
