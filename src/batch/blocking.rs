//! Blocking twins of the async methods of devices, batches, programs and residents.
#![cfg(all(feature = "blocking", not(target_arch = "wasm32")))]

use std::time::Duration;

use super::waiting::{wait, wait_for_run};
use super::{
    BufferId, GpuCommandBatch, Input, OutputKey, Outputs, Profile, Program, ReadView, Resident,
    Tensor,
};
use crate::base::dtype::Element;
use crate::calibrate::Progress;
use crate::cost::{DeviceProfile, Placement};
use crate::device::{Device, DeviceBuilder};
use crate::error::Result;

/// Twins that wait on the calling thread (feature `blocking`).
impl Device {
    /// [`Device::auto`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::auto`].
    pub fn auto_blocking() -> Result<Self> {
        wait(Self::auto())
    }

    /// [`Device::gpu`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::gpu`].
    pub fn gpu_blocking() -> Result<Self> {
        wait(Self::gpu())
    }

    /// [`Device::eval`], waiting on this thread, which computes too where the host does.
    ///
    /// # Errors
    /// As [`Device::eval`].
    pub fn eval_blocking<T: Element>(
        &self,
        record: impl for<'b> FnOnce(&'b GpuCommandBatch) -> Tensor<'b, T>,
    ) -> Result<Vec<T>> {
        wait_for_run(self.eval(record))
    }

    /// [`Device::calibrate`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::calibrate`].
    pub fn calibrate_blocking(&self) -> Result<DeviceProfile> {
        wait(self.calibrate())
    }

    /// [`Device::calibrate_with`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::calibrate_with`].
    pub fn calibrate_with_blocking(
        &self,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<DeviceProfile> {
        wait(self.calibrate_with(progress))
    }
}

/// Twins that wait on the calling thread (feature `blocking`).
impl DeviceBuilder {
    /// [`DeviceBuilder::auto`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::auto`].
    pub fn auto_blocking(self) -> Result<Device> {
        wait(self.auto())
    }

    /// [`DeviceBuilder::gpu`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Device::gpu`].
    pub fn gpu_blocking(self) -> Result<Device> {
        wait(self.gpu())
    }
}

/// Twins that wait on the calling thread (feature `blocking`).
impl GpuCommandBatch {
    /// [`GpuCommandBatch::execute`], waiting on this thread, which computes too where the host does.
    ///
    /// In a task of an executor it may wait for ever: for a run of another task that this thread alone would poll,
    /// where both [update](GpuCommandBatch::update) a resident or share a [memory
    /// budget](crate::DeviceBuilder::memory_budget). There, await [`GpuCommandBatch::execute`].
    ///
    /// # Errors
    /// As [`GpuCommandBatch::execute`].
    pub fn execute_blocking(&self) -> Result<()> {
        wait_for_run(self.execute())
    }

    /// [`GpuCommandBatch::read`], waiting on this thread.
    ///
    /// # Errors
    /// As [`GpuCommandBatch::read`].
    pub fn read_blocking<T: Element>(&self, id: impl Into<BufferId<T>>) -> Result<Vec<T>> {
        Ok(self.found(id.into())?.to_vec())
    }

    /// [`GpuCommandBatch::read_into`], waiting on this thread.
    ///
    /// # Errors
    /// As [`GpuCommandBatch::read_into`].
    pub fn read_into_blocking<T: Element>(
        &self,
        id: impl Into<BufferId<T>>,
        out: &mut [T],
    ) -> Result<()> {
        wait(self.read_into(id, out))
    }

    /// [`GpuCommandBatch::compile`], waiting on this thread.
    ///
    /// # Errors
    /// As [`GpuCommandBatch::compile`].
    pub fn compile_blocking(&self) -> Result<Program> {
        wait(self.compile())
    }
}

/// Twins that wait on the calling thread (feature `blocking`).
impl Program {
    /// [`Program::with_placement`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Program::with_placement`].
    pub fn with_placement_blocking(&self, placement: Placement) -> Result<Self> {
        wait(self.with_placement(placement))
    }

    /// [`Program::run`], waiting on this thread, which computes too where the host does.
    ///
    /// In a task of an executor it may wait for ever: for a run of another task that this thread alone would poll,
    /// where both [update](GpuCommandBatch::update) a resident or share a [memory
    /// budget](crate::DeviceBuilder::memory_budget). There, await [`Program::run`].
    ///
    /// ```
    /// # fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// let y = x.relu();
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
        wait_for_run(self.run(inputs))
    }

    /// [`Program::run_within`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Program::run_within`].
    pub fn run_within_blocking<'a>(
        &self,
        limit: Duration,
        inputs: impl IntoIterator<Item = impl Into<Input<'a>>>,
    ) -> Result<Outputs> {
        wait(self.run_within(limit, inputs))
    }

    /// [`Program::run_unless`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Program::run_unless`].
    pub fn run_unless_blocking<'a>(
        &self,
        stop: impl Future<Output = ()>,
        inputs: impl IntoIterator<Item = impl Into<Input<'a>>>,
    ) -> Result<Outputs> {
        wait(self.run_unless(stop, inputs))
    }

    /// [`Program::profile`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Program::profile`].
    pub fn profile_blocking<'a>(
        &self,
        inputs: impl IntoIterator<Item = impl Into<Input<'a>>>,
    ) -> Result<Profile> {
        wait(self.profile(inputs))
    }
}

/// Twins that wait on the calling thread (feature `blocking`).
impl Outputs {
    /// [`Outputs::read`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Outputs::read`].
    pub fn read_blocking<T: Element>(&self, key: impl OutputKey<T>) -> Result<Vec<T>> {
        wait(self.read(key))
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
        wait(self.read_into(key, out))
    }

    /// [`Outputs::into_vec`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Outputs::into_vec`].
    pub fn into_vec_blocking<T: Element>(self, key: impl OutputKey<T>) -> Result<Vec<T>> {
        wait(self.into_vec(key))
    }
}

/// Twins that wait on the calling thread (feature `blocking`).
impl<T: Element> Resident<T> {
    /// [`Resident::read`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Resident::read`].
    pub fn read_blocking(&self) -> Result<Vec<T>> {
        wait(self.read())
    }

    /// [`Resident::read_into`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Resident::read_into`].
    pub fn read_into_blocking(&self, out: &mut [T]) -> Result<()> {
        wait(self.read_into(out))
    }

    /// [`Resident::read_view`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Resident::read_view`].
    pub fn read_view_blocking(&self) -> Result<ReadView<T>> {
        wait(self.read_view())
    }

    /// [`Resident::keep_host_copy`], waiting on this thread.
    ///
    /// # Errors
    /// As [`Resident::keep_host_copy`].
    pub fn keep_host_copy_blocking(&self) -> Result<()> {
        wait(self.keep_host_copy())
    }
}
