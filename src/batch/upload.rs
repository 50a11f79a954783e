//! Data from host memory, and its replacement between runs.

use std::sync::Arc;

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::Element;
use crate::base::panic::caught;
use crate::base::shape::Shape;
use crate::error::{DataError, DeviceError, MistakeKind, Result};
use crate::exec::HostBuffer;
use crate::ops::{Op, check_size};
use crate::record::Recorded;

/// Uploads. The batch owns their data until it is dropped: a run on the host's cores reads it in place, and each run
/// on a GPU packs it into memory that the device copies from, by several threads where it is large.
///
/// How it comes to the batch is for the caller to choose: [`upload`](Self::upload) copies it once more,
/// [`upload_vec`](Self::upload_vec) and [`upload_with`](Self::upload_with) do not.
impl GpuCommandBatch {
    /// A vector of `data`. The data is copied; [`write`](Self::write) replaces it between runs.
    #[track_caller]
    pub fn upload<T: Element>(&mut self, data: &[T]) -> BufferId<T> {
        self.upload_shaped(data, data.len())
    }

    /// A tensor of `shape` with `data` in row-major order. It is a mistake if the data does not fill the
    /// shape.
    #[track_caller]
    pub fn upload_shaped<T: Element>(
        &mut self,
        data: &[T],
        shape: impl Into<Shape>,
    ) -> BufferId<T> {
        let pool = Arc::clone(self.recorded.device.pool());
        self.upload_filling("upload_shaped", shape.into(), data.len(), |shape| {
            pool.filled(data).map_err(no_room::<T>(shape))
        })
    }

    /// As [`upload_shaped`](Self::upload_shaped), in the memory of `data` where an element has 32 bits. `f16` and
    /// `bool` are copied.
    #[track_caller]
    pub fn upload_vec<T: Element>(&mut self, data: Vec<T>, shape: impl Into<Shape>) -> BufferId<T> {
        self.upload_filling("upload_vec", shape.into(), data.len(), |shape| {
            HostBuffer::try_from_vec(data).map_err(no_room::<T>(shape))
        })
    }

    /// A tensor of `shape` whose data `fill` writes, in row-major order, to the memory that the batch keeps
    /// it in: nothing is copied before a run. The slice starts as zeros. If the shape is a mistake, `fill`
    /// is not called; it is a mistake if `fill` panics.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload_with([2, 2], |x: &mut [f32]| x[1..].fill(0.5));
    /// batch.execute().await?;
    /// assert_eq!(batch.read(x).await?, [0.0, 0.5, 0.5, 0.5]);
    /// batch.write_with(x, |x| x[0] = 7.0)?;
    /// batch.execute().await?;
    /// assert_eq!(batch.read(x).await?, [7.0, 0.5, 0.5, 0.5]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn upload_with<T: Element>(
        &mut self,
        shape: impl Into<Shape>,
        fill: impl FnOnce(&mut [T]),
    ) -> BufferId<T> {
        let shape = shape.into();
        let elements = shape.elements();
        self.upload_filling("upload_with", shape, elements, |shape| {
            let mut buffer =
                HostBuffer::try_zeroed(T::DTYPE, elements).map_err(no_room::<T>(shape))?;
            let filled = caught(|| fill(buffer.as_slice_mut().unwrap_or_default()));
            filled.map_err(MistakeKind::Panicked)?;
            Ok(buffer)
        })
    }

    /// A tensor of `shape` without data, called `name`: what a [`Program`](crate::Program) is given in each run. A
    /// batch that is executed itself needs the data [written](Self::write) before.
    ///
    /// It is a mistake to give a name twice.
    #[track_caller]
    pub fn input<T: Element>(&mut self, name: &str, shape: impl Into<Shape>) -> BufferId<T> {
        let shape = shape.into();
        self.composed_if("input", |b| {
            check_size(&shape)?;
            let position = b.recorded.uploads.len() as u32;
            b.recorded.uploads.push(None);
            let id = b.source(Op::Upload(position), T::DTYPE, shape);
            b.name(id, name);
            Ok(id)
        })
    }

    /// The data of all uploads, by position.
    pub(crate) fn uploaded(&self) -> Result<Vec<Arc<HostBuffer>>> {
        self.recorded.all_given(self.recorded.uploads.iter().cloned())
    }

    /// An upload of `given` elements by the method `name`, made only if they fill the shape.
    #[track_caller]
    fn upload_filling<T: Element>(
        &mut self,
        name: &'static str,
        shape: Shape,
        given: usize,
        data: impl FnOnce(&Shape) -> Result<HostBuffer, MistakeKind>,
    ) -> BufferId<T> {
        let fits = check_size(&shape).and_then(|()| {
            if shape.elements() == given {
                Ok(())
            } else {
                Err(MistakeKind::UploadLength { given, shape: shape.clone() })
            }
        });
        let data = match fits.and_then(|()| data(&shape)) {
            Ok(data) => data,
            Err(what) => return self.mistake(name, what),
        };
        let position = self.recorded.uploads.len() as u32;
        self.recorded.uploads.push(Some(Arc::new(data)));
        self.source(Op::Upload(position), T::DTYPE, shape)
    }

    /// Replaces the data of an upload, which keeps its shape, for the runs to come. The data is copied.
    ///
    /// # Errors
    /// [`DataError`] if `id` is not an upload of this batch, or the data does not fill its shape.
    pub fn write<T: Element>(&mut self, id: BufferId<T>, data: &[T]) -> Result<()> {
        let position = self.upload_of(id, data.len())?;
        let buffer = &mut self.recorded.uploads[position];
        match buffer.as_mut().and_then(Arc::get_mut) {
            Some(buffer) => buffer.write(data),
            // Somebody still reads the old data (a run that was dropped midway, or a view), or there is none.
            None => *buffer = Some(Arc::new(self.recorded.device.pool().filled(data)?)),
        }
        self.runs.forget_results();
        Ok(())
    }

    /// As [`write`](Self::write), in the memory of `data` where an element has 32 bits. `f16` and `bool` are copied.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_vec<T: Element>(&mut self, id: BufferId<T>, data: Vec<T>) -> Result<()> {
        let position = self.upload_of(id, data.len())?;
        let of = self.recorded.origin(id.node);
        let buffer = HostBuffer::try_from_vec(data).map_err(|error| error.of(&of))?;
        self.recorded.uploads[position] = Some(Arc::new(buffer));
        self.runs.forget_results();
        Ok(())
    }

    /// Changes the data of an upload for the runs to come: `change` gets the data as it stands, in row-major order
    /// and in the memory that the batch keeps it in. Nothing is copied, unless a [view](Self::read_view) or
    /// a run that was dropped midway still reads the data.
    ///
    /// # Errors
    /// [`DataError`] if `id` is not an upload of this batch, or `change` panics.
    pub fn write_with<T: Element>(
        &mut self,
        id: BufferId<T>,
        change: impl FnOnce(&mut [T]),
    ) -> Result<()> {
        let given = self.shape(id).map_or(0, |shape| shape.elements());
        let position = self.upload_of(id, given)?;
        // Even if `change` panics, results of the old data are none of the new.
        self.runs.forget_results();
        let of = self.recorded.origin(id.node);
        let Recorded { device, uploads, .. } = &mut self.recorded;
        let buffer = match &mut uploads[position] {
            Some(buffer) => buffer,
            none => {
                let zeros = HostBuffer::try_zeroed(T::DTYPE, given);
                none.insert(Arc::new(zeros.map_err(|error| error.of(&of))?))
            }
        };
        if Arc::get_mut(buffer).is_none() {
            let copy = device.pool().holding(buffer.dtype(), buffer.bytes());
            *buffer = Arc::new(copy.map_err(|error| error.of(&of))?);
        }
        let values = Arc::get_mut(buffer).and_then(HostBuffer::as_slice_mut);
        let changed = caught(|| change(values.unwrap_or_default()));
        Ok(changed.map_err(|what| DataError::Panicked { of, what })?)
    }

    /// The position of an upload that `given` elements fill.
    fn upload_of<T: Element>(&self, id: BufferId<T>, given: usize) -> Result<usize> {
        let Recorded { brand, graph, .. } = &self.recorded;
        let node = if id.brand == *brand { graph.get(id.node) } else { None };
        let node = node.ok_or(DataError::Foreign)?;
        let of = || self.recorded.origin(id.node);
        let Op::Upload(position) = node.op else {
            return Err(DataError::NotAnUpload(of()).into());
        };
        let shape = &node.ty.shape;
        if given != shape.elements() {
            return Err(DataError::Length { of: of(), given, shape: shape.clone() }.into());
        }
        Ok(position as usize)
    }
}

/// What is wrong where the host has no memory for data of `shape`.
fn no_room<T: Element>(shape: &Shape) -> impl Fn(DeviceError) -> MistakeKind {
    |_| MistakeKind::NoRoom { shape: shape.clone(), dtype: T::DTYPE }
}

impl Drop for GpuCommandBatch {
    /// The memory of uploads goes to later batches.
    fn drop(&mut self) {
        let Recorded { device, uploads, .. } = &mut self.recorded;
        for upload in uploads.drain(..).flatten() {
            device.pool().give(upload);
        }
    }
}
