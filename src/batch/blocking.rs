//! Blocking twins of the async methods of devices, batches and residents.
#![cfg(all(feature = "blocking", not(target_arch = "wasm32")))]

use super::{BufferId, GpuCommandBatch, ReadView, Resident};
use crate::device::{Device, DeviceBuilder};
use crate::dtype::Element;
use crate::error::Result;

impl Device {
    /// [`Device::auto`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::auto`].
    pub fn auto_blocking() -> Result<Self> {
        pollster::block_on(Self::auto())
    }

    /// [`Device::gpu`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::gpu`].
    pub fn gpu_blocking() -> Result<Self> {
        pollster::block_on(Self::gpu())
    }

    /// [`Device::eval`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::eval`].
    pub fn eval_blocking<T: Element>(
        &self,
        record: impl FnOnce(&mut GpuCommandBatch) -> BufferId<T>,
    ) -> Result<Vec<T>> {
        pollster::block_on(self.eval(record))
    }
}

impl DeviceBuilder {
    /// [`DeviceBuilder::auto`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::auto`].
    pub fn auto_blocking(self) -> Result<Device> {
        pollster::block_on(self.auto())
    }

    /// [`DeviceBuilder::gpu`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::gpu`].
    pub fn gpu_blocking(self) -> Result<Device> {
        pollster::block_on(self.gpu())
    }
}

impl GpuCommandBatch {
    /// [`GpuCommandBatch::execute`], waiting on this thread.
    ///
    /// # Errors
    /// As [`GpuCommandBatch::execute`].
    pub fn execute_blocking(&mut self) -> Result<()> {
        pollster::block_on(self.execute())
    }

    /// [`GpuCommandBatch::read`], waiting on this thread.
    ///
    /// # Errors
    /// As [`GpuCommandBatch::read`].
    pub fn read_blocking<T: Element>(&self, id: BufferId<T>) -> Result<Vec<T>> {
        Ok(self.found(id)?.to_vec())
    }

    /// [`GpuCommandBatch::read_into`], waiting on this thread.
    ///
    /// # Errors
    /// As [`GpuCommandBatch::read_into`].
    pub fn read_into_blocking<T: Element>(&self, id: BufferId<T>, out: &mut [T]) -> Result<()> {
        pollster::block_on(self.read_into(id, out))
    }
}

impl<T: Element> Resident<T> {
    /// [`Resident::read`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Resident::read`].
    pub fn read_blocking(&self) -> Result<Vec<T>> {
        pollster::block_on(self.read())
    }

    /// [`Resident::read_into`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Resident::read_into`].
    pub fn read_into_blocking(&self, out: &mut [T]) -> Result<()> {
        pollster::block_on(self.read_into(out))
    }

    /// [`Resident::read_view`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Resident::read_view`].
    pub fn read_view_blocking(&self) -> Result<ReadView<T>> {
        pollster::block_on(self.read_view())
    }
}
