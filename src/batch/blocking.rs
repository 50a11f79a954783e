//! Blocking twins of most async methods of devices, batches, programs and residents.
#![cfg(all(feature = "blocking", not(target_arch = "wasm32")))]

use super::{
    BufferId, GpuCommandBatch, Input, OutputKey, Outputs, Profile, Program, ReadView, Resident,
};
use crate::cost::DeviceProfile;
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

    /// [`Device::calibrate`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::calibrate`].
    pub fn calibrate_blocking(&self) -> Result<DeviceProfile> {
        pollster::block_on(self.calibrate())
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

    /// [`GpuCommandBatch::compile`], waiting on this thread.
    ///
    /// # Errors
    /// As [`GpuCommandBatch::compile`].
    pub fn compile_blocking(&mut self) -> Result<Program> {
        pollster::block_on(self.compile())
    }
}

impl Program {
    /// [`Program::run`], waiting on this thread.
    ///
    /// ```
    /// # fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// let y = batch.relu(x);
    /// let program = batch.compile_blocking()?;
    /// let outputs = program.run_blocking([(x, &[1.0, -2.0, 3.0])])?;
    /// assert_eq!(outputs.read_blocking(y)?, [1.0, 0.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_blocking<'a>(
        &self,
        inputs: impl IntoIterator<Item = impl Into<Input<'a>>>,
    ) -> Result<Outputs> {
        pollster::block_on(self.run(inputs))
    }

    /// [`Program::profile`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Program::profile`].
    pub fn profile_blocking<'a>(
        &self,
        inputs: impl IntoIterator<Item = impl Into<Input<'a>>>,
    ) -> Result<Profile> {
        pollster::block_on(self.profile(inputs))
    }
}

impl Outputs {
    /// [`Outputs::read`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Outputs::read`].
    pub fn read_blocking<T: Element>(&self, key: impl OutputKey<T>) -> Result<Vec<T>> {
        pollster::block_on(self.read(key))
    }

    /// [`Outputs::read_into`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Outputs::read_into`].
    pub fn read_into_blocking<T: Element>(
        &self,
        key: impl OutputKey<T>,
        out: &mut [T],
    ) -> Result<()> {
        pollster::block_on(self.read_into(key, out))
    }

    /// [`Outputs::into_vec`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Outputs::into_vec`].
    pub fn into_vec_blocking<T: Element>(self, key: impl OutputKey<T>) -> Result<Vec<T>> {
        pollster::block_on(self.into_vec(key))
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

    /// [`Resident::keep_host_copy`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Resident::keep_host_copy`].
    pub fn keep_host_copy_blocking(&self) -> Result<()> {
        pollster::block_on(self.keep_host_copy())
    }
}
