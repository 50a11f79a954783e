//! Data that stays on the device from batch to batch.

mod bind;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::base::dtype::Element;
use crate::base::future::{BoxFuture, yield_now};
use crate::base::place::Place;
use crate::base::shape::{MAX_RANK, Shape};
use crate::batch::read::{ReadView, check_length};
use crate::cost::Backend;
use crate::device::Device;
use crate::error::{DataError, DeviceError, Origin, Result};
use crate::exec::gpu::DownloadChunks;
use crate::exec::{HostBuffer, memory};
use crate::ops::{Type, check_size};
use crate::residents::{Handle, Keep, Storage, commit};
use crate::session::{HostOrGpuResult, STRIDE, repeated};

/// Bytes up to which data for a device with two sides is kept on both, so that a small graph may run on either. Cores
/// read that much in less than the time of a round trip to a GPU.
const ON_BOTH_SIDES: usize = 4 << 20;

/// A tensor that stays on the device until its last handle is dropped. Any number of batches of its device read it. It has
/// no operations of its own: `&resident` stands as an [operand](crate::Operand), as in `x * &resident`, and
/// `batch.bind(&resident)` is a tensor with all methods. See [`GpuCommandBatch::bind`](crate::GpuCommandBatch::bind).
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, GpuCommandBatch};
///
/// let device = Device::cpu();
/// let (gain, bias) = (device.resident(&[2.0_f32, 4.0], 2)?, device.resident(&[0.5_f32, 0.0], 2)?);
/// for data in [[1.0_f32, 2.0], [3.0, 4.0]] {
///     let batch = GpuCommandBatch::new(&device);
///     let y = batch.upload(&data) * &gain + &bias;
///     batch.execute().await?;
///     assert_eq!(batch.read(y).await?, [data[0] * 2.0 + 0.5, data[1] * 4.0]);
/// }
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
pub struct Resident<T> {
    handle: Handle,
    element: PhantomData<fn() -> T>,
}

/// The data and its copies.
impl<T: Element> Resident<T> {
    pub(in crate::batch) fn of(handle: Handle) -> Self {
        Self { handle, element: PhantomData }
    }

    /// A resident of `ty`, whose elements are `T`s, that holds `storage`. Messages name it as `of`.
    pub(super) fn holding(device: &Device, ty: Type, of: Origin, storage: Storage) -> Self {
        Self::of(Handle::new(device, ty, of, storage))
    }

    /// Keeps a copy of the data in the host's memory from now on, with which the resident outlives the loss of a
    /// GPU. Where runs fill it, each brings the new data to the host before it ends.
    ///
    /// While the buffer is the caller's too, by [`wgpu_buffer`](Self::wgpu_buffer), no copy could be trusted, and none
    /// is kept: the data is lost with the GPU. The next run that fills the resident brings a copy again.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::Device;
    /// let device = Device::auto().await?;
    /// let weights = device.resident(&[0.5_f32, 2.0], 2)?;
    /// weights.keep_host_copy().await?; // They outlive the loss of a GPU.
    /// assert_eq!(weights.read().await?, [0.5, 2.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`DeviceError`] if the device fails while it hands out the data that it has.
    pub fn keep_host_copy(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.handle.copied_to_host())
    }

    /// Asks for a copy on `side`. Graphs are placed as if it were there; the first run on `side` that reads the
    /// resident makes it. It stays until a run fills the resident again. The last preference counts, also for data that
    /// fills the resident later.
    ///
    /// The side of each graph is predicted as before. Without a preference, a resident of more than 4 MiB lies on the
    /// GPU alone if there is one. Graphs that read it run there until the device was [measured](Device::calibrate) and
    /// a few runs on the host are predicted to pay for the copy.
    ///
    /// On a device without that side, nothing changes. A buffer that is the caller's too, by `wgpu_buffer`, stays where it
    /// is. Unlike [`keep_host_copy`](Self::keep_host_copy), this does not save the data from the loss of a GPU before the
    /// copy was made.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use onetrip::{Backend, Device, GpuCommandBatch};
    ///
    /// let device = Device::auto().await?;
    /// let table = device.resident(&vec![0.5_f32; 2 << 20], [2 << 10, 1 << 10])?;
    /// table.prefer(Backend::Cpu); // Look-ups of a few rows are done before a GPU would have begun.
    /// let batch = GpuCommandBatch::new(&device);
    /// let y = batch.embedding(batch.bind(&table), batch.upload(&[7_u32, 1]));
    /// batch.execute().await?;
    /// assert_eq!(batch.read(y).await?, [0.5; 2 << 10]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn prefer(&self, side: Backend) {
        self.handle.prefer(side);
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(super) fn device(&self) -> &Device {
        self.handle.device()
    }

    /// The tensor's shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.handle.ty().shape
    }

    /// Replaces the data, in row-major order. Runs that [update](crate::GpuCommandBatch::update) the resident and this
    /// take turns; runs under way that read it go on with the old data. Costs as [`Device::resident`]. If the future is
    /// dropped before its end, the data stays as it was.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let rate = device.resident(&[0.5_f32], [])?;
    /// let batch = GpuCommandBatch::new(&device);
    /// let x = batch.input::<f32>("x", 2);
    /// let y = x * &rate;
    /// let program = batch.compile().await?;
    /// rate.write(&[0.25]).await?;
    /// let outputs = program.run([(x, &[4.0, 8.0])]).await?;
    /// assert_eq!(outputs.read(y).await?, [1.0, 2.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`DataError::Length`] if the data does not fill the shape; [`DeviceError`] if the device has no room, or fails.
    pub fn write<'a>(&'a self, data: &'a [T]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let (of, given, shape) = (self.handle.origin(), data.len(), self.shape());
            if given != shape.elements() {
                return Err(DataError::Length { of, given, shape: shape.clone() }.into());
            }
            let _turn = Arc::clone(self.handle.update_lock()).lock_owned().await;
            let storage = self.device().stored(data).map_err(|error| error.of(&of))?;
            let keep = Keep { handle: self.handle.clone(), patch: None };
            commit(self.device(), &[keep], &mut [storage]).await?;
            Ok(())
        })
    }

    /// The data in a vector of its own, in row-major order. Costs as
    /// [`GpuCommandBatch::read`](crate::GpuCommandBatch::read); a large resident comes from the device in chunks, each
    /// on its way while the one before is copied.
    ///
    /// # Errors
    /// [`ReadError::EmptyResident`](crate::ReadError::EmptyResident) before the batch that keeps it has run;
    /// [`DeviceError`] if the device fails. If the GPU is lost, the device recovers first by its
    /// [`Recovery`](crate::Recovery). The call then reads the [host copy](Self::keep_host_copy), or fails with
    /// [`DeviceError::ResidentLost`]. Under [`Recovery::Fail`](crate::Recovery::Fail) it fails with [`DeviceError::Lost`].
    pub fn read(&self) -> BoxFuture<'_, Result<Vec<T>>> {
        Box::pin(async { repeated!(self.device(), self.read_once()) })
    }

    async fn read_once(&self) -> Result<Vec<T>> {
        let Some(mut chunks) = self.chunks()? else {
            return Ok(self.handle.fetch().await?.into_vec().await);
        };
        let mut values = memory::try_zeroed(self.shape().elements())?;
        while let Some((start, chunk)) = self.device().fetch_next(&mut chunks).await? {
            values = chunk.copied_into(values, start).await;
        }
        Ok(values)
    }

    /// Copies the data to `out`, in row-major order. Costs as
    /// [`GpuCommandBatch::read_into`](crate::GpuCommandBatch::read_into); a large resident comes in chunks, as in
    /// [`read`](Self::read).
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::Device;
    /// let resident = Device::cpu().resident(&[1.0_f32, 2.0], [2])?;
    /// let mut out = [0.0; 2];
    /// resident.read_into(&mut out).await?;
    /// assert_eq!(out, [1.0, 2.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read), and then `out` may hold some of the data;
    /// [`ReadError::Length`](crate::ReadError::Length) if `out` has not as many elements as the resident.
    pub fn read_into<'a>(&'a self, out: &'a mut [T]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            check_length(|| self.handle.origin(), self.shape(), out)?;
            repeated!(self.device(), self.read_once_into(out))
        })
    }

    async fn read_once_into(&self, out: &mut [T]) -> Result<()> {
        let Some(mut chunks) = self.chunks()? else {
            self.handle.fetch().await?.copy_yielding(out).await;
            return Ok(());
        };
        while let Some((start, chunk)) = self.device().fetch_next(&mut chunks).await? {
            chunk.copy_out(0, &mut out[start..start + chunk.len()]);
            yield_now().await;
        }
        Ok(())
    }

    fn chunks(&self) -> Result<Option<DownloadChunks>> {
        let storage = self.handle.filled_storage()?;
        Ok(match (storage.host(), storage.gpu(), self.device().opened()) {
            (None, Some(buffer), Some(gpu)) => {
                Some(gpu.read_chunks(buffer, STRIDE / size_of::<T>()))
            }
            _ => None,
        })
    }

    /// The data as it is now, in memory that the host can read. Costs as
    /// [`GpuCommandBatch::read_view`](crate::GpuCommandBatch::read_view), after the transfer from the device.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_view(&self) -> BoxFuture<'_, Result<ReadView<T>>> {
        Box::pin(async { repeated!(self.device(), self.handle.fetch()).map(ReadView::of) })
    }
}

/// Transfers of a resident's data, of any element type.
impl Handle {
    /// Has the host keep a copy from now on, and brings the data that is there.
    async fn copied_to_host(&self) -> Result<()> {
        self.keep_host_copy();
        repeated!(self.device(), self.on_host_if_filled())
    }

    async fn on_host_if_filled(&self) -> Result<()> {
        if self.storage()?.is_some() {
            self.on_host().await?;
        }
        Ok(())
    }

    /// The data, brought to the host if need be.
    fn fetch(&self) -> BoxFuture<'_, Result<HostOrGpuResult>> {
        Box::pin(async {
            let storage = self.filled_storage()?;
            if let Some(buffer) = storage.host() {
                return Ok(HostOrGpuResult::Host(Arc::clone(buffer)));
            }
            if let (Some(buffer), Some(gpu)) = (storage.gpu(), self.device().opened()) {
                return Ok(HostOrGpuResult::Gpu(self.device().fetch(&gpu, buffer).await?));
            }
            Err(self.empty().into())
        })
    }
}

/// Residents.
impl Device {
    /// Data that stays on the device until the last handle is dropped, for
    /// [`GpuCommandBatch::bind`](crate::GpuCommandBatch::bind).
    ///
    /// The data is copied once, by this thread and others, before the call returns; the device takes it from there.
    /// Data on a GPU alone is lost with the GPU, even if a [`Recovery`](crate::Recovery) repeats the runs. Call
    /// [`keep_host_copy`](Resident::keep_host_copy) to keep it.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let weight = device.resident(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// let batch = GpuCommandBatch::new(&device);
    /// let y = batch.upload_shaped(&[1.0_f32, 10.0], [1, 2]).matmul(&weight);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(y).await?, [31.0, 42.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`DataError`] if the data does not fill the shape, or the shape has too many dimensions or elements;
    /// [`DeviceError`] if the device has no room or its GPU is lost.
    #[track_caller]
    pub fn resident<T: Element>(&self, data: &[T], shape: impl Into<Shape>) -> Result<Resident<T>> {
        self.resident_of(Origin::resident(None, Place::caller()), data, shape.into())
    }

    /// As [`resident`](Self::resident), for a call that messages are to name as `of`.
    pub(super) fn resident_of<T: Element>(
        &self,
        of: Origin,
        data: &[T],
        shape: Shape,
    ) -> Result<Resident<T>> {
        let given = data.len();
        if shape.rank() > MAX_RANK {
            return Err(DataError::Rank { of, given: shape.rank() }.into());
        }
        if check_size(&shape).is_err() {
            return Err(DataError::TooLarge { of, shape }.into());
        }
        if shape.elements() != given {
            return Err(DataError::Length { of, given, shape }.into());
        }
        let storage = self.stored(data).map_err(|error| error.of(&of))?;
        Ok(Resident::holding(self, Type { dtype: T::DTYPE, shape }, of, storage))
    }

    /// Puts `data` on the sides where graphs run that read it.
    fn stored<T: Element>(&self, data: &[T]) -> Result<Storage, DeviceError> {
        let on_host = || HostBuffer::try_from_slice(data).map(Arc::new);
        let Some(gpu) = self.opened() else { return Ok(Storage::Host(on_host()?)) };
        let is_small = self.uses(Backend::Cpu) && size_of_val(data) <= ON_BOTH_SIDES;
        let host = if is_small { Some(on_host()?) } else { None };
        match self.send(&gpu, T::DTYPE, bytemuck::cast_slice(data)) {
            Ok(on_gpu) => Ok(Storage::of(host, Some(on_gpu))),
            // It goes to the device that takes its place, with the first run that reads it.
            Err(DeviceError::Lost { .. }) if self.recovers() => Ok(Storage::Host(on_host()?)),
            Err(error) => Err(error),
        }
    }
}

impl<T> Clone for Resident<T> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), element: PhantomData }
    }
}

impl<T> fmt::Debug for Resident<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}
