//! Data from host memory, and its replacement between runs.

mod data;
pub(super) mod wide_ids;

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

pub use self::data::UploadData;
use self::wide_ids::{Unfilled, narrowed};
use crate::base::dtype::{DType, Element};
use crate::base::process::caught;
use crate::base::shape::Shape;
use crate::batch::{BufferId, GpuCommandBatch, Tensor};
use crate::device::Device;
use crate::error::{DataError, MistakeKind, Result};
use crate::exec::HostBuffer;
use crate::ops::{Op, Type, check_size};
use crate::record::{Recorder, UntypedId};

/// Uploads and inputs. The data of an upload lives as long as the batch and the programs compiled from it. A run on the
/// host's cores reads it in place. Each run on a GPU packs it into memory that the device copies from. Several threads pack
/// large data.
///
/// Uploading a slice copies it into the batch. A vector of 32-bit elements that is passed by value is not copied, and
/// [`upload_with`](Self::upload_with) copies nothing.
impl GpuCommandBatch {
    /// A vector of [`data`](UploadData): of a slice, an array or a vector. [`write`](Self::write) replaces it between
    /// runs.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1.0_f32, 2.0]); // Copied.
    /// let y = batch.upload(vec![3.0_f32, 4.0]); // Not copied: 32-bit elements.
    /// let sum = x + y;
    /// batch.execute().await?;
    /// assert_eq!(batch.read(sum).await?, [4.0, 6.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn upload<'a, T: Element>(&self, data: impl UploadData<'a, Element = T>) -> Tensor<'_, T> {
        let data = data.elements();
        let given = data.len();
        self.upload_filling("upload", given.into(), given, || buffer(data, &self.device))
    }

    /// A tensor of `shape` with `data` in row-major order. It is a mistake if the data does not fill the
    /// shape.
    #[track_caller]
    pub fn upload_shaped<'a, T: Element>(
        &self,
        data: impl UploadData<'a, Element = T>,
        shape: impl Into<Shape>,
    ) -> Tensor<'_, T> {
        let data = data.elements();
        let given = data.len();
        self.upload_filling("upload_shaped", shape.into(), given, || buffer(data, &self.device))
    }

    /// A tensor of `shape` whose data `fill` writes, in row-major order, to the memory that the batch keeps
    /// it in: nothing is copied before a run. The slice starts as zeros. If the shape is a mistake, `fill`
    /// is not called; it is a mistake if `fill` panics.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload_with([2, 2], |x: &mut [f32]| x[1..].fill(0.5));
    /// batch.execute().await?;
    /// assert_eq!(batch.read(x).await?, [0.0, 0.5, 0.5, 0.5]);
    /// batch.write_with(x, |x| x[0] = 7.0)?;
    /// batch.execute().await?;
    /// assert_eq!(batch.read(x).await?, [7.0, 0.5, 0.5, 0.5]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn upload_with<T: Element>(
        &self,
        shape: impl Into<Shape>,
        fill: impl FnOnce(&mut [T]),
    ) -> Tensor<'_, T> {
        let shape = shape.into();
        let elements = shape.elements();
        self.upload_filling("upload_with", shape, elements, || {
            let buffer = HostBuffer::try_zeroed(T::DTYPE, elements);
            let mut buffer = buffer.map_err(Unfilled::NoRoom)?;
            let filled = caught(|| fill(buffer.as_slice_mut().unwrap_or_default()));
            filled.map_err(Unfilled::Panicked)?;
            Ok(buffer)
        })
    }

    /// A tensor of `shape` with the 64-bit `ids` in row-major order, as tokenizers give them. It is a mistake if one is no
    /// `i32`, or if they do not fill the shape. [`Input::ids`](crate::Input::ids) gives them to runs of a program.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let table = batch.upload_shaped(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], [3, 2]);
    /// let ids = batch.upload_ids(&[2_i64, 0], 2);
    /// let rows = table.embedding(ids);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(rows).await?, [4.0, 5.0, 0.0, 1.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn upload_ids(&self, ids: &[i64], shape: impl Into<Shape>) -> Tensor<'_, i32> {
        self.upload_filling("upload_ids", shape.into(), ids.len(), || {
            narrowed(self.device.pool(), DType::I32, ids)
        })
    }

    /// A tensor of `shape` without data, called `name`: a [`Program`](crate::Program) is given it in each run. A
    /// batch that is executed itself needs the data [written](Self::write) before. An input that no result needs may be
    /// left out.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [2, 3]);
    /// let ids = batch.input::<u32>("ids", 2);
    /// let y = x.gather(ids, 1);
    /// let program = batch.compile().await?;
    /// // Inputs of one element type come in an array, of several types in a tuple of pairs.
    /// let (rows, columns) = ([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2_u32, 0]);
    /// let outputs = program.run(((x, &rows), (ids, &columns))).await?;
    /// assert_eq!(outputs.read(y).await?, [3.0, 1.0, 6.0, 4.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// It is a mistake to give a name twice.
    #[track_caller]
    pub fn input<T: Element>(&self, name: &str, shape: impl Into<Shape>) -> Tensor<'_, T> {
        let shape = shape.into();
        self.composed("input", || {
            check_size(&shape)?;
            let id = self.push_upload(None, shape);
            self.name(id, name);
            Ok(id)
        })
    }

    /// An upload of `given` elements by the method `name`, made only if they fill the shape.
    #[track_caller]
    pub(super) fn upload_filling<T: Element>(
        &self,
        name: &'static str,
        shape: Shape,
        given: usize,
        data: impl FnOnce() -> Result<HostBuffer, Unfilled>,
    ) -> Tensor<'_, T> {
        let fits = check_size(&shape).and_then(|()| {
            if shape.elements() == given {
                return Ok(());
            }
            Err(MistakeKind::UploadLength { given, shape: shape.clone() })
        });
        let filled = fits.and_then(|()| {
            data().map_err(|unfilled| match unfilled {
                Unfilled::NoRoom(_) => {
                    MistakeKind::NoRoom { shape: shape.clone(), dtype: T::DTYPE }
                }
                Unfilled::Misfit(_) => MistakeKind::Internal("an upload shares no bytes"),
                Unfilled::Panicked(what) => MistakeKind::Panicked(what),
                Unfilled::Range { at, value } => {
                    MistakeKind::IdRange { at, value, dtype: T::DTYPE, shape: shape.clone() }
                }
            })
        });
        match filled {
            Ok(data) => self.push_upload(Some(data), shape),
            Err(what) => self.composed(name, || Err(what.into())),
        }
    }

    #[track_caller]
    fn push_upload<T: Element>(&self, data: Option<HostBuffer>, shape: Shape) -> Tensor<'_, T> {
        let mut recorder = self.recorder.lock();
        recorder.recording.start();
        let uploads = &mut recorder.change().uploads;
        let position = uploads.len() as u32;
        uploads.push(data.map(Arc::new));
        let ty = Type { dtype: T::DTYPE, shape };
        let node = recorder.push(Op::Upload(position), SmallVec::new(), ty);
        self.tensor(node)
    }
}

/// Other data between runs.
impl GpuCommandBatch {
    /// Replaces the data of an upload, which keeps its shape, for the runs to come. A slice is copied, a vector by
    /// value is not, where an element has 32 bits.
    ///
    /// # Errors
    /// [`DataError`] if `id` is not an upload of this batch, the data does not fill its shape, or a call of
    /// [`write_with`](Self::write_with) is changing it; [`DeviceError`](crate::DeviceError) if memory is lacking.
    pub fn write<'a, T: Element>(
        &self,
        id: impl Into<BufferId<T>>,
        data: impl UploadData<'a, Element = T>,
    ) -> Result<()> {
        let (value, data) = (id.into().value(), data.elements());
        let mut recorder = self.recorder.lock();
        let position = upload_of(&recorder, value, Some(data.len()))?;
        let of = recorder.recorded().origin(value.node);
        let upload = &mut recorder.change_data().uploads[position];
        let new = match (data, upload.as_mut().and_then(Arc::get_mut)) {
            (Cow::Borrowed(slice), Some(buffer)) => {
                buffer.write(slice);
                None
            }
            // The old data is still read, by a run or by a view, or there is none.
            (Cow::Borrowed(slice), None) => Some(self.device.pool().filled(slice)),
            (Cow::Owned(vector), _) => Some(HostBuffer::try_from_vec(vector)),
        };
        if let Some(new) = new {
            *upload = Some(Arc::new(new.map_err(|error| error.of(&of))?));
        }
        recorder.forget_change(position);
        Ok(())
    }

    /// Changes the data of an upload for the runs to come: `change` gets the data as it stands, in row-major order
    /// and in the memory that the batch keeps it in. An [input](Self::input) without data gets zeros. Nothing
    /// is copied, unless a [view](Self::read_view) or a run still reads the data. A run that begins before `change` returns fails with
    /// [`DataError::BeingChanged`].
    ///
    /// If `change` panics, the data may be half changed. Runs fail with [`DataError::Panicked`] until a later call writes
    /// it.
    ///
    /// # Errors
    /// [`DataError`] if `id` is not an upload of this batch, `change` panics, or another call of `write_with` is
    /// changing the data; [`DeviceError`](crate::DeviceError) if memory for a copy is lacking.
    pub fn write_with<T: Element>(
        &self,
        id: impl Into<BufferId<T>>,
        change: impl FnOnce(&mut [T]),
    ) -> Result<()> {
        let value = id.into().value();
        let (position, mut buffer) = self.taken_upload(value, T::DTYPE)?;
        // The lock is not held here: `change` may use the batch.
        let changed = caught(|| change(buffer.as_slice_mut().unwrap_or_default()));
        let mut recorder = self.recorder.lock();
        recorder.forget_change(position);
        recorder.change_data().uploads[position] = Some(Arc::new(buffer));
        let of = recorder.recorded().origin(value.node);
        Ok(changed.map_err(|what| {
            recorder.changing.push((position, Some(what.clone())));
            DataError::Panicked { of, what }
        })?)
    }

    /// The position of an upload, and its data. The data is taken from the upload where nobody else reads it, else
    /// copied; it is zeros where there is none. Until the data comes back, the upload is marked as being changed.
    fn taken_upload(&self, value: UntypedId, dtype: DType) -> Result<(usize, HostBuffer)> {
        let pool = self.device.pool();
        let mut recorder = self.recorder.lock();
        let position = upload_of(&recorder, value, None)?;
        let of = recorder.recorded().origin(value.node);
        let elements = recorder.recorded().graph[value.node].ty.shape.elements();
        let upload = &mut recorder.change_data().uploads[position];
        let taken = match upload.take().map(Arc::try_unwrap) {
            Some(Ok(buffer)) => Ok(buffer),
            Some(Err(read)) => {
                let copy = pool.holding(read.dtype(), read.bytes());
                *upload = Some(read);
                copy
            }
            None => HostBuffer::try_zeroed(dtype, elements),
        };
        let buffer = taken.map_err(|error| error.of(&of))?;
        recorder.forget_change(position);
        recorder.changing.push((position, None));
        Ok((position, buffer))
    }
}

/// The elements of a slice, copied; those of a vector where they are.
fn buffer<T: Element>(data: Cow<'_, [T]>, device: &Device) -> Result<HostBuffer, Unfilled> {
    let buffer = match data {
        Cow::Borrowed(slice) => device.pool().filled(slice),
        Cow::Owned(vector) => HostBuffer::try_from_vec(vector),
    };
    buffer.map_err(Unfilled::NoRoom)
}

/// The position of an upload, which `given` elements fill if they are given.
fn upload_of(recorder: &Recorder, value: UntypedId, given: Option<usize>) -> Result<usize> {
    let recorded = recorder.recorded();
    let node = recorded.node(value).ok_or_else(|| recorded.foreign_upload(value.batch_id))?;
    let position = recorded.upload(node).map_err(without_names)?;
    let shape = &recorded.graph[node].ty.shape;
    if let Some(given) = given.filter(|&given| given != shape.elements()) {
        let of = recorded.origin(node);
        return Err(DataError::Length { of, given, shape: shape.clone() }.into());
    }
    if recorder.changing.contains(&(position, None)) {
        return Err(DataError::BeingChanged(recorded.origin(node)).into());
    }
    Ok(position)
}

/// The error without the names of uploads: a batch is written by id alone.
fn without_names(mut error: DataError) -> DataError {
    if let DataError::NotAnUpload { there, .. } = &mut error {
        there.clear();
    }
    error
}
