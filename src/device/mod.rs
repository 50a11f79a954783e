//! Devices: where batches run.

mod activity;
mod builder;
mod calibration;
#[cfg(feature = "gpu")]
mod card;
mod choice;
#[cfg(feature = "gpu")]
mod compiled;
mod contests;
#[cfg(feature = "serde")]
mod keep;
mod metrics;
mod plans;
mod pools;
mod prepared;
mod reckoning;
mod recovery;
#[cfg(feature = "gpu")]
mod sharing;
mod transfers;

use std::fmt;
use std::sync::Arc;

pub use builder::DeviceBuilder;
pub(crate) use choice::{Choice, Wanted};
pub(crate) use contests::Turn;
pub(crate) use metrics::Counter;
pub use metrics::Metrics;
pub use pools::PoolStats;
pub(crate) use prepared::{CompiledPieces, CompiledPlan, CompiledSplit, Prepared};
pub use recovery::{DeviceLoss, Recovery};

use self::activity::Activity;
pub(crate) use self::activity::Busy;
use self::calibration::Background;
#[cfg(feature = "gpu")]
use self::card::Card;
#[cfg(feature = "serde")]
use self::keep::Keep;
use self::reckoning::Reckoning;
pub(crate) use self::reckoning::Targets;
#[cfg(any(feature = "gpu", feature = "serde"))]
use crate::base::disk_cache::Store;
use crate::base::future::BoxFuture;
use crate::base::process::watch_forks;
use crate::base::shared::Shared;
use crate::cost::{Backend, DeviceProfile, Limits, Placement};
use crate::error::Result;
use crate::exec::budget::Budget;
use crate::exec::cpu::CpuPool;
#[cfg(feature = "gpu")]
use crate::exec::gpu::Gpu;
use crate::exec::janitor;

/// Where batches run: the host's cores, and a GPU where there is one. Cheap to clone; share one
/// device among all batches and tasks.
///
/// A child process of `fork` has none of the threads that devices work with, and their drivers do not work there: open one
/// after `exec`. Runs that need other threads fail with [`DeviceError::Forked`](crate::DeviceError::Forked) there, on
/// Linux; elsewhere they wait for ever.
#[derive(Clone)]
pub struct Device(Shared<Inner>);

struct Inner {
    #[cfg(feature = "gpu")]
    card: Option<Card>,
    info: DeviceInfo,
    reckoning: Arc<Reckoning>,
    activity: Arc<Activity>,
    background: Background,
    #[cfg(feature = "serde")]
    keep: Option<Keep>,
    sides: Sides,
    placement: Placement,
    learns_nothing: bool,
    /// Whether the profile was given by hand.
    by_hand: bool,
    pool: Arc<CpuPool>,
    plans: Arc<plans::Plans>,
    counters: Arc<metrics::Counters>,
    budget: Budget,
}

/// What a device was opened with. The cores also take the place of a GPU that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sides {
    Cpu,
    Gpu,
    Both,
}

/// What a device is. Where a batch really ran is in [`RunStats::backend`](crate::RunStats::backend).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The adapter's name, or `cpu`.
    pub name: String,
    /// The graphics API, or `host`.
    pub api: String,
    /// The driver and its version, where there is one.
    pub driver: String,
    /// Whether a GPU adapter is emulated on the host's cores.
    pub software: bool,
    /// Threads that compute on the host.
    pub threads: usize,
    /// Why [`Device::auto`] found no GPU to use, where it fell back to the host's cores.
    pub fallback: Option<String>,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.name, self.api)?;
        if !self.driver.is_empty() {
            write!(f, ", {}", self.driver)?;
        }
        if self.software {
            f.write_str(", software")?;
        }
        write!(f, ", {} host threads)", self.threads)
    }
}

impl Device {
    /// The best GPU together with the host's cores: each graph runs where it is predicted to be done
    /// first. Without a hardware GPU that can be opened, the cores alone;
    /// [`DeviceInfo::fallback`] then says why.
    ///
    /// `ONETRIP_BACKEND=cpu` or `=gpu` overrides the choice; with `gpu`, a software adapter will
    /// do. `ONETRIP_ADAPTER` picks the GPU whose name contains it, ignoring case, or whose PCI bus ID it is.
    ///
    /// # Errors
    /// [`DeviceError`](crate::DeviceError) if a variable is not understood, or asks for a GPU that is not there.
    pub fn auto() -> BoxFuture<'static, Result<Self>> {
        Self::builder().auto()
    }

    /// The host's cores. A profile that was [measured](Self::calibrate) of them before is found in the
    /// [cache](DeviceBuilder#the-cache), as for every device.
    #[must_use]
    pub fn cpu() -> Self {
        Self::on_cpu(None, Self::builder().unchecked())
    }

    fn on_cpu(fallback: Option<String>, start: Start) -> Self {
        let threads = crate::exec::threads::count();
        let info = DeviceInfo {
            name: "cpu".into(),
            api: "host".into(),
            driver: String::new(),
            software: false,
            threads,
            fallback,
        };
        let inner = Inner::new(info, None, Sides::Cpu, start);
        Self(Shared::new(inner))
    }

    /// A GPU for everything: the best there is, a software adapter only if there is no hardware.
    /// `ONETRIP_ADAPTER` picks the one whose name contains it, ignoring case, or whose PCI bus ID it is.
    ///
    /// # Errors
    /// [`NoAdapter`](crate::DeviceError::NoAdapter) if there is none, with those that were found;
    /// [`Open`](crate::DeviceError::Open) if the adapter gives no device;
    /// [`NoGpuSupport`](crate::DeviceError::NoGpuSupport) in a build without
    /// the feature `gpu`.
    pub fn gpu() -> BoxFuture<'static, Result<Self>> {
        Self::builder().gpu()
    }

    /// Opens a device with a profile, a placement, a memory budget, a recovery from lost GPUs or a cache folder of the
    /// caller's choice.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::builder().without_cache().auto().await?;
    /// # let _ = device;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> DeviceBuilder {
        DeviceBuilder::default()
    }

    #[cfg(feature = "gpu")]
    fn with_gpu(gpu: Gpu, sides: Sides, start: Start) -> Self {
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
        let (recovery, store) = (start.recovery, start.store.clone());
        let mut inner = Inner::new(info, limits, sides, start);
        inner.card = Some(Card::new(gpu, recovery, store));
        Self(Shared::new(inner))
    }

    /// Whether the device was opened with a GPU. It says so after a loss too, whatever the
    /// [`Recovery`](crate::Recovery); [`on_lost`](Self::on_lost) and [`PoolStats::losses`] tell of losses, and
    /// [`RunStats::backend`](crate::RunStats::backend) where a run was.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        #[cfg(feature = "gpu")]
        return self.0.card.is_some();
        #[cfg(not(feature = "gpu"))]
        false
    }

    /// What the device is.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// What becomes of a placement that was `asked` for: without the GPU that was given up, all is the CPU's.
    pub(crate) fn placement_now(&self, asked: Placement) -> Placement {
        if self.gave_up_its_gpu() { Placement::Cpu } else { asked }
    }

    /// Whether graphs may run on a side as things stand.
    pub(crate) fn uses(&self, side: Backend) -> bool {
        match side {
            Backend::Cpu => self.0.sides != Sides::Gpu || self.gave_up_its_gpu(),
            Backend::Gpu => self.is_gpu() && !self.gave_up_its_gpu(),
        }
    }

    /// Whether the GPU was lost and the host's cores take its place.
    fn gave_up_its_gpu(&self) -> bool {
        #[cfg(feature = "gpu")]
        return self.card().is_some_and(|card| !card.is_usable());
        #[cfg(not(feature = "gpu"))]
        false
    }

    /// How the side is chosen where a batch does not say.
    pub(crate) fn placement(&self) -> Placement {
        self.0.placement
    }

    /// What graphs are planned for as things stand.
    pub(crate) fn targets(&self) -> Arc<Targets> {
        self.0.reckoning.targets()
    }

    /// How fast the device is reckoned to be on both sides.
    #[must_use]
    pub fn profile(&self) -> DeviceProfile {
        self.0.reckoning.profile()
    }

    /// Reckons with `profile` from now on.
    #[cfg(all(test, feature = "gpu"))]
    pub(crate) fn set_profile(&self, profile: DeviceProfile) {
        self.0.reckoning.set(profile);
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    pub(crate) fn pool(&self) -> &Arc<CpuPool> {
        &self.0.pool
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.0.info)
    }
}

/// What a device starts from.
struct Start {
    /// Given by hand.
    profile: Option<DeviceProfile>,
    learns_nothing: bool,
    placement: Placement,
    budget: Budget,
    #[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "there is no GPU to lose"))]
    recovery: Recovery,
    #[cfg(any(feature = "gpu", feature = "serde"))]
    store: Option<Arc<Store>>,
}

impl Inner {
    /// Without a GPU, whose limits are given if there will be one.
    fn new(info: DeviceInfo, gpu: Option<Limits>, sides: Sides, start: Start) -> Self {
        let by_hand = start.profile.is_some();
        #[cfg(feature = "serde")]
        let keep = start.store.map(|store| Keep::new(store, &info));
        #[cfg(feature = "serde")]
        let kept = keep.as_ref().filter(|_| !by_hand).and_then(Keep::load);
        #[cfg(not(feature = "serde"))]
        let kept = None;
        let profile = start.profile.or(kept);
        let profile = profile.unwrap_or_else(|| DeviceProfile::typical(info.threads));
        // Where nothing would be kept, nothing is measured unasked.
        #[cfg(feature = "serde")]
        let wanted = keep.is_some() && !by_hand && !profile.measured && sides == Sides::Both;
        #[cfg(not(feature = "serde"))]
        let wanted = false;
        watch_forks();
        let activity = Arc::default();
        Self {
            info,
            reckoning: Arc::new(Reckoning::new(profile, gpu)),
            background: Background::new(wanted, Arc::clone(&activity)),
            activity,
            #[cfg(feature = "serde")]
            keep,
            sides,
            placement: start.placement,
            learns_nothing: start.learns_nothing,
            by_hand,
            pool: janitor::watched(CpuPool::default()),
            budget: start.budget,
            plans: Arc::default(),
            counters: Arc::default(),
            #[cfg(feature = "gpu")]
            card: None,
        }
    }
}
