//! Running a plan on a GPU through wgpu, in one trip: one staging buffer, one encoder, one compute pass, one
//! submit, one mapped readback buffer. Only large uploads may go in [`waves`], each submitted before the next is packed.
//!
//! - [`adapter`] opens a device, [`loading`] has its driver load compilers, [`idle`] keeps it for the next user and [`closer`]
//!   closes it, which no end of the process meets halfway: [`gate`]. [`kernels`] are what [`compiler`] makes, of [`pipelines`]
//!   and their [`layouts`]; [`own`] checks what users wrote, [`archive`] keeps what was compiled and writes it to disk in
//!   [`background`]. No thread with other futures to poll waits for a driver that does any of this: [`turns`].
//! - [`staging`] packs what goes up, by [`convert`] in the form that the device has it; [`encode`] encodes with the bind
//!   [`groups`] of before and [`record`] records, [`ahead`] does so for the next run, [`trip`] submits, [`gather`] has
//!   small runs submitted together.
//! - [`flight`] waits with the help of the thread in [`poller`] until its [`ticket`] is called, which [`returns`] see
//!   to; [`readback`] hands out, [`resident`] keeps, [`stamps`] takes the times.
//! - Buffers come from a [`pool`]; commands run in the order of their submission, on one queue.
//! - [`fault`] turns whatever wgpu reports into errors: no call here panics on a device's failure.

pub(crate) mod compile;
pub(crate) mod driver;
pub(crate) mod memory;
pub(crate) mod submit;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

pub(crate) use crate::exec::gpu::compile::custom::{Wrong, check as check_own};
pub(crate) use crate::exec::gpu::compile::kernels::Kernels;
pub(crate) use crate::exec::gpu::driver::adapter::{AdapterChoice, GpuInfo};
pub(crate) use crate::exec::gpu::submit::job::{HostData, Job};
pub(crate) use crate::exec::gpu::submit::readback::{Download, GpuRun};
pub(crate) use crate::exec::gpu::submit::resident::{DeviceBuffer, Parts, Patched};

use crate::base::disk_cache::Store;
use crate::cost::Limits;
use crate::error::DeviceError;
use crate::exec::budget::Permit;
use crate::exec::gpu::compile::compiler::Compiler;
use crate::exec::gpu::compile::disk::DiskCache;
use crate::exec::gpu::driver::device_cache::Leaving;
use crate::exec::gpu::driver::exit_guard::{DriverCall, ExitGuard};
use crate::exec::gpu::driver::health::Health;
use crate::exec::gpu::memory::bind_groups::BindGroups;
use crate::exec::gpu::memory::pool::{Class, Kind, Lease, Pool};
use crate::exec::gpu::memory::sizes::size_class;
use crate::exec::gpu::submit::coalesce::Coalescer;
use crate::exec::gpu::submit::completion::Held;
use crate::exec::gpu::submit::poll::Poller;
use crate::exec::janitor::{self, Sweep};
use crate::exec::memory::MemoryCounts;
use crate::exec::threads::off_thread;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuCounts {
    /// Staging buffers sent: 0 or 1, or more in waves.
    pub uploads: u32,
    /// 0 or 1, or more in waves.
    pub submits: u32,
    /// Readback buffers mapped: 0 or 1.
    pub downloads: u32,
    pub dispatches: u32,
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// Buffers that came from the pool.
    pub pool_hits: u32,
    /// Buffers that had to be created.
    pub pool_misses: u32,
    pub bind_group_hits: u32,
    /// Whether other runs were submitted with it: 0 or 1.
    pub shared: u32,
}

/// An opened GPU. Clones are the same device.
#[derive(Clone)]
pub(crate) struct Gpu(Arc<Shared>);

/// Which GPU something is for, while it is open and after.
#[derive(Clone)]
pub(crate) struct GpuId(Weak<Shared>);

impl PartialEq for GpuId {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

pub(crate) struct Shared {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: GpuInfo,
    limits: Limits,
    health: Arc<Health>,
    pool: Arc<Pool>,
    compiler: Compiler,
    groups: BindGroups,
    gather: Arc<Coalescer>,
    poller: Poller,
    ahead: submit::ahead::Programs,
    /// Dropped last.
    _leaving: Option<Leaving>,
}

impl Gpu {
    /// Opens the best adapter that fits `choice`, off the awaiting thread: that takes drivers a tenth of a second. Compiled
    /// pipelines are kept in `store`, and `held` is held meanwhile.
    pub async fn open(
        choice: &AdapterChoice,
        store: Option<Arc<Store>>,
        held: impl Send + 'static,
    ) -> Result<Self, DeviceError> {
        if cfg!(target_arch = "wasm32") {
            return Self::open_here(choice, store).await;
        }
        ExitGuard::of_process();
        let choice = choice.clone();
        let open = move || {
            let _held = held;
            pollster::block_on(Self::open_here(&choice, store))
        };
        off_thread(open).await
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
        // One at a time: a driver crashed where a dozen threads opened devices at once.
        static OPENING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let opening = OPENING.lock().await;
        let _at_work = driver::exit_guard::enter()?;
        let opened = driver::adapter::open(choice, features).await?;
        drop(opening);
        let gpu = Self::new(opened, true, store)?;
        gpu.load_compilers().await;
        Ok(gpu)
    }

    /// A device that somebody else opened on `adapter`, and closes.
    pub fn adopt(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Result<Self, DeviceError> {
        Self::new(driver::adapter::adopt(adapter, device, queue)?, false, None)
    }

    /// With `own`, the device is left to the next user.
    fn new(
        opened: driver::adapter::Opened,
        own: bool,
        store: Option<Arc<Store>>,
    ) -> Result<Self, DeviceError> {
        opened.health.watch(&opened.device);
        let leaving = own.then(|| Leaving::new(opened.clone()));
        let driver::adapter::Opened { device, queue, info, limits, health } = opened;
        let gather = Coalescer::new(device.clone(), queue.clone(), Arc::clone(&health));
        let gather = Arc::new(gather);
        let poller =
            Poller::start(device.clone(), Arc::clone(&health), Arc::clone(&gather), info.software)
                .map_err(|error| DeviceError::Open {
                    adapter: info.name.clone(),
                    reason: error.to_string(),
                })?;
        let archive = store.and_then(|store| DiskCache::open(&device, &info, store));
        let shared = Shared {
            pool: Pool::new(Arc::clone(&health)),
            compiler: Compiler::new(device.clone(), Arc::clone(&health), archive),
            groups: BindGroups::default(),
            device,
            queue,
            info,
            limits,
            health,
            gather,
            poller,
            ahead: submit::ahead::Programs::default(),
            _leaving: leaving,
        };
        Ok(Self(janitor::watched(shared)))
    }

    /// What the device's buffers count.
    pub fn memory(&self) -> MemoryCounts {
        self.0.pool.counts()
    }

    /// Frees all buffers that lie idle.
    pub fn trim(&self) {
        self.0.free_idle();
    }

    /// What a plan for this device must keep to.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub fn raw(&self) -> (&wgpu::Device, &wgpu::Queue) {
        (&self.0.device, &self.0.queue)
    }

    pub fn info(&self) -> &GpuInfo {
        &self.0.info
    }

    pub fn id(&self) -> GpuId {
        GpuId(Arc::downgrade(&self.0))
    }

    /// Fails if the device is lost, also if nobody was told yet.
    pub fn check(&self) -> Result<(), DeviceError> {
        let Shared { device, health, .. } = &*self.0;
        let _passing = self.0.admit()?;
        health.probe(device)
    }

    /// Why the device can do nothing more, if it is so.
    pub fn loss(&self) -> Option<&str> {
        self.0.health.loss()
    }

    /// Whether `buffer` is of this device, and not of one that was lost.
    pub fn owns(&self, buffer: &DeviceBuffer) -> bool {
        self.0.pool.is_of(&buffer.lease)
    }

    /// Whether `kernels` were compiled for this device, or bind nothing of any.
    pub fn can_run(&self, kernels: &Kernels) -> bool {
        kernels.params.as_ref().is_none_or(|params| self.0.pool.is_of(&params.block))
    }

    /// Lets go of what was compiled for a lost device: to destroy that may take long here.
    pub fn forget(kernels: Arc<Kernels>) {
        driver::reaper::close(kernels);
    }

    /// Lets go of a lost device, which is closed when nobody else holds it: here that may take long.
    pub fn close(self) {
        driver::reaper::close(self.0);
    }

    /// Loses the device, as a driver might.
    pub fn destroy(&self) {
        self.0.health.lose_by(|| self.0.device.destroy());
        self.0.poller.wake();
    }
}

impl Sweep for Shared {
    fn sweep(&self) {
        self.pool.sweep();
        drop(self.take_freed());
        let _ = self.health.poll(&self.device, wgpu::PollType::Poll);
    }
}

impl Shared {
    /// The right to call the driver, if the device is sound and the process does not end.
    fn admit(&self) -> Result<DriverCall<'static>, DeviceError> {
        let passing = driver::exit_guard::pass()?;
        self.health.check(&self.device)?;
        Ok(passing)
    }

    /// What a submission holds of its run's. A driver that computes on the host is at work until it has finished, and may
    /// compile meanwhile.
    fn hold(&self, permit: &Permit) -> Result<Held, DeviceError> {
        let at_work = if self.info.software { Some(driver::exit_guard::enter()?) } else { None };
        Ok(Held { permit: permit.clone(), at_work })
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        let descriptor = wgpu::CommandEncoderDescriptor { label: Some("onetrip") };
        self.device.create_command_encoder(&descriptor)
    }

    /// A buffer of at least `bytes`, from the pool if it has one.
    fn lease(&self, kind: Kind, bytes: u64, counts: &mut GpuCounts) -> Result<Lease, DeviceError> {
        let class = self.class(kind, bytes)?;
        let idle = self.pool.reuse(std::iter::once(class)).pop().flatten();
        self.idle_or_new(idle, class, counts)
    }

    /// As [`lease`](Self::lease), for each of `bytes`.
    fn lease_all(
        &self,
        kind: Kind,
        bytes: impl Iterator<Item = u64>,
        counts: &mut GpuCounts,
    ) -> Result<Vec<Lease>, DeviceError> {
        let classes: Vec<Class> =
            bytes.map(|bytes| self.class(kind, bytes)).collect::<Result<_, _>>()?;
        let idle = self.pool.reuse(classes.iter().copied());
        let each = idle.into_iter().zip(classes);
        each.map(|(idle, class)| self.idle_or_new(idle, class, counts)).collect()
    }

    /// The class of buffers for `bytes`.
    fn class(&self, kind: Kind, bytes: u64) -> Result<Class, DeviceError> {
        let limit = match kind {
            Kind::Storage => self.info.binding_bytes,
            Kind::Params | Kind::Staging | Kind::Readback => self.info.buffer_bytes,
        };
        let size = size_class(bytes, limit).ok_or_else(|| DeviceError::OutOfMemory {
            doing: format!("allocating {bytes} bytes in one buffer, which holds at most {limit}"),
        })?;
        Ok(Class { kind, size })
    }

    fn idle_or_new(
        &self,
        idle: Option<Lease>,
        class: Class,
        counts: &mut GpuCounts,
    ) -> Result<Lease, DeviceError> {
        if let Some(lease) = idle {
            counts.pool_hits += 1;
            return Ok(lease);
        }
        counts.pool_misses += 1;
        match self.pool.create(&self.device, class) {
            Err(DeviceError::OutOfMemory { .. }) => {
                self.free_idle();
                self.pool.create(&self.device, class)
            }
            created => created,
        }
    }

    /// Gives idle memory back to the driver.
    fn free_idle(&self) {
        self.pool.trim();
        drop(self.take_freed());
        // Bind groups that others took out hold memory too.
        driver::reaper::catch_up(Duration::from_millis(100));
        let _ = self.health.poll(&self.device, wgpu::PollType::Poll);
    }

    /// Takes out the bind groups of freed buffers, and drops what was encoded for these. Both keep their memory alive.
    fn take_freed(&self) -> Vec<wgpu::BindGroup> {
        let freed = self.pool.freed();
        if freed.is_empty() {
            return Vec::new();
        }
        self.ahead.forget(&freed);
        self.groups.take(&freed)
    }
}
