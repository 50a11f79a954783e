//! Devices, which run batches: the host's cores, a GPU, or both.

// First in the documentation of [`Device`].
mod open;

mod calibration;
mod choice;
mod compile;
mod gpu;
mod metrics;
mod parts;
mod planning;
mod profile;
mod transfers;
#[cfg(feature = "gpu")]
mod wgpu_interop;

use std::fmt;
use std::sync::Arc;

pub(crate) use choice::PlanChoice;
pub use parts::adapter::{AdapterKey, GpuAdapter};
pub use parts::builder::DeviceBuilder;
pub(crate) use parts::counters::Counter;
pub use parts::counters::{Metrics, PoolStats};
pub use parts::info::DeviceInfo;
pub use parts::loss::{DeviceLoss, Recovery};
pub(crate) use parts::prepared::{PreparedGraph, PreparedPlan};
pub(crate) use parts::profile_store::Targets;
pub(crate) use parts::trials::TrialRun;
pub(crate) use planning::PlanRequest;

use self::parts::background::Background;
use self::parts::busy_tracker::BusyTracker;
use self::parts::counters::Counters;
use self::parts::device_gpu::DeviceGpu;
use self::parts::info::OpenedSides;
use self::parts::profile_file::ProfileFile;
use self::parts::profiles::Profiles;
use crate::base::process::watch_forks;
use crate::cost::{Backend, Limits, Placement};
use crate::exec::budget::Budget;
use crate::exec::gpu::Gpu;
use crate::exec::{HostPool, janitor};

/// A device runs batches: on the host's cores, and on a GPU if there is one. Cheap to clone; share one
/// device among all batches and tasks.
///
/// A child process of `fork` has none of the threads that devices work with, and their drivers do not work there: open one
/// after `exec`. On Linux, runs that need other threads fail with [`DeviceError::Forked`](crate::DeviceError::Forked)
/// there, and all runs if the fork came while the parent ran something. Elsewhere they may wait for ever.
#[derive(Clone)]
pub struct Device(Arc<DeviceInner>);

struct DeviceInner {
    device_gpu: Option<DeviceGpu>,
    info: DeviceInfo,
    profiles: Arc<Profiles>,
    busy_tracker: Arc<BusyTracker>,
    background: Background,
    sides: OpenedSides,
    placement: Placement,
    learns_nothing: bool,
    pool: Arc<HostPool>,
    counters: Arc<Counters>,
    budget: Budget,
}

/// The device itself.
impl Device {
    fn on_cpu(fallback: Option<String>, start: DeviceBuilder) -> Self {
        let threads = crate::exec::threads::count();
        let info = DeviceInfo {
            name: "cpu".into(),
            api: "host".into(),
            driver: String::new(),
            software: false,
            threads,
            fallback,
        };
        let inner = DeviceInner::new(info, None, OpenedSides::Cpu, start);
        Self(Arc::new(inner))
    }

    fn with_gpu(gpu: Gpu, sides: OpenedSides, start: DeviceBuilder) -> Self {
        let found = gpu.info();
        let info = DeviceInfo {
            name: found.name.clone(),
            api: found.backend.clone(),
            driver: found.driver.clone(),
            software: found.software,
            threads: crate::exec::threads::count(),
            fallback: None,
        };
        let limits = Some(gpu.limits().clone());
        let (recovery, store) = (start.recovery, start.store());
        let mut inner = DeviceInner::new(info, limits, sides, start);
        inner.device_gpu = Some(DeviceGpu::new(gpu, recovery, store));
        Self(Arc::new(inner))
    }

    /// Returns whether the device was opened with a GPU; true after a loss too, with any [`Recovery`](crate::Recovery).
    /// For losses see [`on_lost`](Self::on_lost) and [`PoolStats::losses`]; for the side of a run see
    /// [`RunStats::backend`](crate::RunStats::backend).
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        self.0.device_gpu.is_some()
    }

    /// The description of the device.
    ///
    /// ```
    /// let device = onetrip::Device::cpu();
    /// assert_eq!(device.info().name, "cpu");
    /// println!("{} threads", device.info().threads);
    /// ```
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// The placement that takes effect if `asked` is wanted: once the GPU was given up, all runs on the CPU.
    pub(crate) fn placement_now(&self, asked: Placement) -> Placement {
        if self.gave_up_its_gpu() { Placement::Cpu } else { asked }
    }

    /// Returns whether graphs may run on a side as things stand.
    pub(crate) fn uses(&self, side: Backend) -> bool {
        match side {
            Backend::Cpu => self.0.sides != OpenedSides::Gpu || self.gave_up_its_gpu(),
            Backend::Gpu => self.is_gpu() && !self.gave_up_its_gpu(),
        }
    }

    /// Returns whether the GPU was lost and the host's cores take its place.
    fn gave_up_its_gpu(&self) -> bool {
        self.device_gpu().is_some_and(|gpu| !gpu.is_usable())
    }

    /// The placement of batches that name none.
    pub(crate) fn placement(&self) -> Placement {
        self.0.placement
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    pub(crate) fn pool(&self) -> &Arc<HostPool> {
        &self.0.pool
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.0.info)
    }
}

impl DeviceInner {
    /// A device without a GPU yet. `gpu` has the limits of the GPU that the caller adds.
    fn new(
        info: DeviceInfo,
        gpu: Option<Limits>,
        sides: OpenedSides,
        start: DeviceBuilder,
    ) -> Self {
        let store = start.store().filter(|_| cfg!(feature = "serde"));
        let file = store.map(|store| ProfileFile::new(store, &info));
        let profiles = Profiles::new(start.profile, file, &info, gpu);
        let measures = sides == OpenedSides::Both && profiles.want_measuring();
        watch_forks();
        let busy_tracker = Arc::default();
        Self {
            info,
            profiles: Arc::new(profiles),
            background: Background::new(measures, Arc::clone(&busy_tracker)),
            busy_tracker,
            sides,
            placement: start.placement,
            learns_nothing: start.learns_nothing,
            pool: janitor::watched(HostPool::default()),
            budget: Budget::new(start.memory_budget),
            counters: Arc::default(),
            device_gpu: None,
        }
    }
}
