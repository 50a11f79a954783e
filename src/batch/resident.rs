//! Data that stays on the device from batch to batch.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use super::attempt::recover;
use super::read::{Found, ReadView, check_length};
#[cfg(feature = "gpu")]
use super::read::{STRIDE, yield_now};
use super::residence::{Handle, Storage};
use crate::base::dtype::Element;
use crate::base::shape::{MAX_RANK, Shape};
#[cfg(feature = "gpu")]
use crate::cost::Backend;
use crate::device::Device;
use crate::error::{DataError, DeviceError, Error, Origin, Result};
use crate::exec::HostBuffer;
#[cfg(feature = "gpu")]
use crate::exec::gpu::Parts;
#[cfg(feature = "gpu")]
use crate::exec::memory;
use crate::ops::{Type, check_size};

/// Bytes up to which data for a device with two sides is kept on both: what cores read in less than the time of a
/// round trip to a GPU, so that a small graph may run on either.
#[cfg(feature = "gpu")]
const ON_BOTH_SIDES: usize = 4 << 20;

/// A tensor that stays on the device until its last handle is dropped. Bind it in any number of
/// batches of its device with [`GpuCommandBatch::bind`].
pub struct Resident<T> {
    handle: Handle,
    element: PhantomData<fn() -> T>,
}

impl<T: Element> Resident<T> {
    pub(super) fn of(handle: Handle) -> Self {
        Self { handle, element: PhantomData }
    }

    /// A resident of `ty`, whose elements are `T`s, made at `place`, that holds `storage`.
    pub(super) fn holding(
        device: &Device,
        ty: Type,
        place: &'static Location<'static>,
        storage: Storage,
    ) -> Self {
        Self::of(Handle::new(device, ty, place, storage))
    }

    /// Keeps a copy of the data in the host's memory from now on, with which the resident outlives the loss of a
    /// GPU. Where runs fill it, each brings the new data to the host before it ends.
    ///
    /// While the buffer is the caller's too, by [`wgpu_buffer`](Self::wgpu_buffer), no copy could be trusted, and none
    /// is kept: the data is lost with the GPU. The next run that fills the resident brings a copy again.
    ///
    /// # Errors
    /// [`DeviceError`] if the device fails while it hands out the data that it has.
    pub async fn keep_host_copy(&self) -> Result<()> {
        self.handle.want_host_copy();
        let mut recoveries = 0;
        while self.handle.storage()?.is_some() {
            match self.handle.on_host().await {
                Ok(_) => break,
                Err(error) => self.recover(error, &mut recoveries).await?,
            }
        }
        Ok(())
    }

    /// Does for a transfer what the device's [`Recovery`](crate::Recovery) does for runs. Returns if it may be tried
    /// again.
    async fn recover(&self, error: Error, recoveries: &mut u64) -> Result<()> {
        recover(self.device(), error, recoveries).await
    }

    pub(super) fn handle(&self) -> &Handle {
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

    /// The data in a vector of its own, in row-major order. Costs as [`GpuCommandBatch::read`]; a large resident
    /// comes from the device in parts, each on its way while the one before is copied.
    ///
    /// # Errors
    /// [`ReadError::EmptyResident`](crate::ReadError::EmptyResident) before the batch that keeps it has run;
    /// [`DeviceError`] if the device fails. If that is its loss, the device's [`Recovery`](crate::Recovery) is made, and
    /// the error is [`DeviceError::ResidentLost`] unless there is a [copy](Self::keep_host_copy) to read; with
    /// [`Recovery::Fail`](crate::Recovery::Fail) it is [`DeviceError::Lost`].
    pub async fn read(&self) -> Result<Vec<T>> {
        let mut recoveries = 0;
        loop {
            match self.read_once().await {
                Err(error) => self.recover(error, &mut recoveries).await?,
                read => return read,
            }
        }
    }

    async fn read_once(&self) -> Result<Vec<T>> {
        #[cfg(feature = "gpu")]
        if let Some(mut parts) = self.parts()? {
            let mut values = memory::try_zeroed(self.shape().elements())?;
            while let Some((start, part)) = self.device().fetch_next(&mut parts).await? {
                values = part.copied_into(values, start).await;
            }
            return Ok(values);
        }
        Ok(self.found().await?.into_vec().await)
    }

    /// Copies the data to `out`, in row-major order. Costs as [`GpuCommandBatch::read_into`]; a large resident comes
    /// in parts, as in [`read`](Self::read).
    ///
    /// # Errors
    /// As [`read`](Self::read), and then `out` may hold some of the data;
    /// [`ReadError::Length`](crate::ReadError::Length) if `out` has not as many elements as the resident.
    pub async fn read_into(&self, out: &mut [T]) -> Result<()> {
        check_length(|| self.handle.origin(), self.shape(), out)?;
        let mut recoveries = 0;
        while let Err(error) = self.read_once_into(out).await {
            self.recover(error, &mut recoveries).await?;
        }
        Ok(())
    }

    async fn read_once_into(&self, out: &mut [T]) -> Result<()> {
        #[cfg(feature = "gpu")]
        if let Some(mut parts) = self.parts()? {
            while let Some((start, part)) = self.device().fetch_next(&mut parts).await? {
                part.copy_out(0, &mut out[start..start + part.len()]);
                yield_now().await;
            }
            return Ok(());
        }
        self.found().await?.copy_yielding(out).await;
        Ok(())
    }

    /// The data in parts, if it is on a GPU.
    #[cfg(feature = "gpu")]
    fn parts(&self) -> Result<Option<Parts>> {
        let (Storage { host: None, gpu: Some(buffer), .. }, Some(gpu)) =
            (self.handle.filled()?, self.device().opened())
        else {
            return Ok(None);
        };
        Ok(Some(gpu.read_parts(&buffer, STRIDE / size_of::<T>())))
    }

    /// The data as it is now, in memory that the host can read. Costs as [`GpuCommandBatch::read_view`], after
    /// the transfer from the device.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_view(&self) -> Result<ReadView<T>> {
        let mut recoveries = 0;
        loop {
            match self.found().await {
                Err(error) => self.recover(error, &mut recoveries).await?,
                Ok(found) => return Ok(found.into_view()),
            }
        }
    }

    /// The data, brought to the host if need be.
    async fn found(&self) -> Result<Found> {
        let storage = self.handle.filled()?;
        if let Some(buffer) = storage.host {
            return Ok(Found::Host(buffer));
        }
        #[cfg(feature = "gpu")]
        if let (Some(buffer), Some(gpu)) = (storage.gpu, self.device().opened()) {
            return Ok(Found::Gpu(self.device().fetch(&gpu, &buffer).await?));
        }
        Err(self.handle.empty().into())
    }
}

impl Device {
    /// Data that stays on the device until the last handle is dropped, for [`GpuCommandBatch::bind`].
    ///
    /// The data is copied once, by this thread and others, before the call returns; the device takes it from there.
    /// What lies on a GPU alone is lost with it, also where a [`Recovery`](crate::Recovery) repeats the runs: a service
    /// that is to outlive that calls [`keep_host_copy`](Resident::keep_host_copy).
    ///
    /// # Errors
    /// [`DataError`] if the data does not fill the shape;
    /// [`DeviceError`] if the device has no room.
    #[track_caller]
    pub fn resident<T: Element>(&self, data: &[T], shape: impl Into<Shape>) -> Result<Resident<T>> {
        self.resident_of(Origin::unnamed("resident", Location::caller()), data, shape.into())
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
        Ok(Resident::holding(self, Type { dtype: T::DTYPE, shape }, of.place, storage))
    }

    /// Puts `data` on the sides where graphs run that read it.
    fn stored<T: Element>(&self, data: &[T]) -> Result<Storage, DeviceError> {
        let on_host = || Ok(Storage::on_host(Arc::new(HostBuffer::try_from_slice(data)?)));
        #[cfg(feature = "gpu")]
        if let Some(gpu) = self.opened() {
            let small = self.uses(Backend::Cpu) && size_of_val(data) <= ON_BOTH_SIDES;
            let host = if small { on_host()? } else { Storage::default() };
            return match self.send(&gpu, T::DTYPE, bytemuck::cast_slice(data)) {
                Ok(resident) => Ok(host.and_on_gpu(resident)),
                // It goes to the device that takes its place, with the first run that reads it.
                Err(DeviceError::Lost { .. }) if self.recovers() => on_host(),
                Err(error) => Err(error),
            };
        }
        on_host()
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
