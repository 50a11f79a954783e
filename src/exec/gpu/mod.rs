//! Running a plan on a GPU through wgpu, in one trip: one staging buffer, one encoder, one compute pass, one submission,
//! one mapped readback buffer. Large uploads alone may go in waves, each submitted before the next is packed.
//!
//! Folders, of which each names only those before it:
//!
//! - [`driver`] owns the wgpu device and queue. Most quirks of drivers are known there alone;
//!   `docs/drivers.md` names the files of the others.
//! - [`memory`] leases buffers from a pool, and binds them.
//! - [`compile`] makes pipelines, and keeps them on disk.
//! - [`submit`] has the path of a run: its stages, and the states of a submission.
//!
//! Commands run in the order of their submission, on one queue. No call here panics on a failure of a device: each becomes
//! an error.

mod compile;
mod counts;
#[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser polls by itself"))]
mod driver;
mod memory;
#[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser polls by itself"))]
mod submit;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::{Arc, Weak};

pub(crate) use compile::{Kernels, check_custom};
#[cfg(test)]
use counts::GpuCounts;
#[cfg(test)]
pub(crate) use driver::long;
pub(crate) use driver::{AdapterChoice, GpuInfo, GuardedDevice, close, in_last_poll, in_turn};
pub(crate) use memory::DeviceBuffer;
pub(crate) use submit::resident::DownloadChunks;
pub(crate) use submit::run_inputs::{GpuRunInputs, HostData};
pub(crate) use submit::run_results::{Download, GpuRunResults};

use self::compile::has_room_for_params;
use self::submit::engine::Engine;
use crate::base::disk::cache::Store;
use crate::codegen::Dispatch;
use crate::cost::Limits;
use crate::error::DeviceError;
use crate::exec::janitor;
use crate::exec::memory::MemoryCounts;
use crate::exec::threads::{begin, off_thread};

/// An opened GPU. Clones are the same device.
#[derive(Clone)]
pub(crate) struct Gpu(Arc<Engine>);

impl Deref for Gpu {
    type Target = Arc<Engine>;

    fn deref(&self) -> &Arc<Engine> {
        &self.0
    }
}

/// The identity of a GPU, while it is open and after.
#[derive(Clone)]
pub(crate) struct GpuId(Weak<Engine>);

impl PartialEq for GpuId {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

impl Gpu {
    /// Opens the best adapter that fits `choice`, off the awaiting thread: drivers take a tenth of a second. Compiled
    /// pipelines are kept in `store`, and `held` is held meanwhile.
    pub async fn open(
        choice: &AdapterChoice,
        store: Option<Arc<Store>>,
        held: impl Send + 'static,
    ) -> Result<Self, DeviceError> {
        if cfg!(target_arch = "wasm32") {
            return Self::open_here(choice, store).await;
        }
        GuardedDevice::prepare_process();
        let choice = choice.clone();
        let open = move || {
            let _held = held;
            pollster::block_on(Self::open_here(&choice, store))
        };
        off_thread(open).await
    }

    /// The adapters of the host, the fastest kind first, found off the awaiting thread.
    pub async fn list() -> Result<Vec<GpuInfo>, DeviceError> {
        if cfg!(target_arch = "wasm32") {
            return GuardedDevice::list().await;
        }
        GuardedDevice::prepare_process();
        off_thread(|| pollster::block_on(GuardedDevice::list())).await
    }

    async fn open_here(
        choice: &AdapterChoice,
        store: Option<Arc<Store>>,
    ) -> Result<Self, DeviceError> {
        use wgpu::Features as F;
        let features = F::SHADER_F16
            | F::SUBGROUP
            | F::SHADER_INT64
            | F::EXPERIMENTAL_COOPERATIVE_MATRIX
            | F::TIMESTAMP_QUERY
            | F::TIMESTAMP_QUERY_INSIDE_ENCODERS
            | F::PIPELINE_CACHE;
        Self::open_with(choice, features, store).await
    }

    /// As [`open`](Self::open), with those of `features` that the adapter has.
    async fn open_with(
        choice: &AdapterChoice,
        features: wgpu::Features,
        store: Option<Arc<Store>>,
    ) -> Result<Self, DeviceError> {
        Self::new(GuardedDevice::open(choice, features).await?, store)
    }

    /// A GPU that calls `driver`. Compiled pipelines are kept in `store`.
    pub fn new(device: Arc<GuardedDevice>, store: Option<Arc<Store>>) -> Result<Self, DeviceError> {
        Ok(Self(janitor::watched(Engine::new(device, store)?)))
    }

    /// Drops the last handles of a lost device on another thread, once nobody else holds it: that may take long.
    pub fn close(self) {
        close(self.0);
    }

    /// Loses the device, as a driver might.
    pub fn destroy(&self) {
        self.device.destroy();
        self.submissions.poller.wake();
    }

    pub fn id(&self) -> GpuId {
        GpuId(Arc::downgrade(&self.0))
    }

    pub fn info(&self) -> &GpuInfo {
        &self.device.info
    }

    /// The limits that a plan for this device must keep to.
    pub fn limits(&self) -> &Limits {
        &self.device.limits
    }

    /// Fails if the device is lost, even if that was not reported yet.
    pub fn check(&self) -> Result<(), DeviceError> {
        self.device.check()
    }

    /// The reason of the loss, if the device is lost.
    pub fn loss_reason(&self) -> Option<&str> {
        self.device.health.loss_reason()
    }

    /// The counts of the device's buffers.
    pub fn memory_counts(&self) -> MemoryCounts {
        self.memory.pool.counts()
    }

    /// Frees all idle buffers.
    pub fn trim(&self) {
        self.memory.free_idle();
    }

    /// Returns whether `buffer` is of this device, and not of one that was lost.
    pub fn owns(&self, buffer: &DeviceBuffer) -> bool {
        self.memory.pool.is_of(&buffer.lease)
    }

    /// Compiles the missing kernels, several at once, off the awaiting thread, which allocates no memory for parameters
    /// either: while a driver compiles for others, that takes tens of milliseconds. `held` is held meanwhile, even if the
    /// future is not polled any more.
    pub async fn compile(
        &self,
        dispatches: Vec<Dispatch>,
        held: impl Send + 'static,
    ) -> Result<Arc<Kernels>, DeviceError> {
        let Engine { compiler, device, memory, .. } = &*self.0;
        let has_room = has_room_for_params(device, memory, &dispatches);
        if has_room && compiler.knows(&dispatches) {
            return self.compile_here(dispatches);
        }
        GuardedDevice::prepare_process();
        let (gpu, late_errors) = (self.clone(), device.health.late_errors());
        let compile = move || {
            let _held = held;
            gpu.compile_here(dispatches)
        };
        let kernels = off_thread(compile).await?;
        self.check_compiled(late_errors).await?;
        Ok(kernels)
    }

    /// Fails if the browser has refused a kernel since there were `late_errors`; its pipelines are then forgotten.
    async fn check_compiled(&self, late_errors: u64) -> Result<(), DeviceError> {
        let Engine { compiler, device, .. } = &*self.0;
        device.late_errors_came().await;
        let doing = || "compiling kernels".into();
        device.check_late_errors(late_errors, doing).inspect_err(|_| compiler.forget())
    }

    /// Begins to compile the missing kernels, on other threads. The future ends when they are compiled.
    pub fn begin_compiling(
        &self,
        dispatches: Vec<Dispatch>,
    ) -> impl Future<Output = Result<(), DeviceError>> + use<> {
        let (gpu, late_errors) = (self.clone(), self.device.health.late_errors());
        let compiling = begin({
            let gpu = gpu.clone();
            move || gpu.compile_here(dispatches)
        });
        async move {
            compiling.await?;
            gpu.check_compiled(late_errors).await
        }
    }

    fn compile_here(&self, dispatches: Vec<Dispatch>) -> Result<Arc<Kernels>, DeviceError> {
        let Engine { compiler, device, memory, .. } = &*self.0;
        Kernels::compile(compiler, device, memory, dispatches).map(Arc::new)
    }

    /// Returns whether `kernels` were compiled for this device, or bind no parameters of any.
    pub fn can_run(&self, kernels: &Kernels) -> bool {
        kernels.params.as_ref().is_none_or(|params| self.memory.pool.is_of(&params.block))
    }
}
