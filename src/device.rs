//! Devices: where batches run.

mod builder;
mod plans;

use std::fmt;
use std::sync::Arc;

pub use builder::DeviceBuilder;
pub(crate) use plans::Prepared;

use crate::cost::{Backend, DeviceProfile, Limits, Profiles};
use crate::error::{PlanError, Result};
use crate::graph::Graph;
use crate::plan::{Placed, Target, place};
use crate::run::cpu::CpuPool;
#[cfg(feature = "gpu")]
use crate::run::gpu::Gpu;

/// Where batches run: the host's cores, and a GPU where there is one. Cheap to clone; share one
/// device among all batches and tasks.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    // First, so that the compiler proves its parts to be `Send` and `Sync` by the shortest way: the other ways
    // are longer than it goes.
    #[cfg(feature = "gpu")]
    gpu: Option<(Gpu, Target)>,
    info: DeviceInfo,
    cpu: Target,
    /// Whether the host's cores may be chosen.
    cpu_allowed: bool,
    pool: Arc<CpuPool>,
    plans: plans::Plans,
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
    /// do. `ONETRIP_ADAPTER` picks the GPU whose name contains it, ignoring case.
    ///
    /// # Errors
    /// [`DeviceError`](crate::DeviceError) if a variable is not understood, or asks for a GPU that is not there.
    pub async fn auto() -> Result<Self> {
        Self::builder().auto().await
    }

    /// The host's cores.
    #[must_use]
    pub fn cpu() -> Self {
        Self::on_cpu(None)
    }

    fn on_cpu(fallback: Option<String>) -> Self {
        let threads = crate::run::threads::count();
        let info = DeviceInfo {
            name: "cpu".into(),
            api: "host".into(),
            driver: String::new(),
            software: false,
            threads,
            fallback,
        };
        Self(Arc::new(Inner {
            info,
            cpu: cpu_target(),
            cpu_allowed: true,
            pool: Arc::default(),
            plans: plans::Plans::default(),
            #[cfg(feature = "gpu")]
            gpu: None,
        }))
    }

    /// A GPU for everything: the best there is, a software adapter only if there is no hardware.
    /// `ONETRIP_ADAPTER` picks the one whose name contains it, ignoring case.
    ///
    /// # Errors
    /// [`NoAdapter`](crate::DeviceError::NoAdapter) if there is none, with those that were found;
    /// [`Open`](crate::DeviceError::Open) if the adapter gives no device;
    /// [`NoGpuSupport`](crate::DeviceError::NoGpuSupport) in a build without
    /// the feature `gpu`.
    pub async fn gpu() -> Result<Self> {
        Self::builder().gpu().await
    }

    /// Opens a device that keeps what it compiled elsewhere than usual, or nowhere.
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
    fn with_gpu(gpu: Gpu, cpu_allowed: bool) -> Self {
        let found = gpu.info();
        let info = DeviceInfo {
            name: found.name.clone(),
            api: found.backend.clone(),
            driver: found.driver.clone(),
            software: found.software,
            threads: crate::run::threads::count(),
            fallback: None,
        };
        let target =
            Target { backend: Backend::Gpu, limits: gpu.limits().clone(), profiles: profiles() };
        let pool = Arc::default();
        Self(Arc::new(Inner {
            info,
            cpu: cpu_target(),
            cpu_allowed,
            pool,
            plans: plans::Plans::default(),
            gpu: Some((gpu, target)),
        }))
    }

    /// Whether the device has a GPU.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        #[cfg(feature = "gpu")]
        return self.0.gpu.is_some();
        #[cfg(not(feature = "gpu"))]
        false
    }

    /// What the device is.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Plans a graph for the side that is predicted to be done first. With `pinned`, data lives on a
    /// side and the graph runs there.
    pub(crate) fn place(
        &self,
        graph: &Graph,
        pinned: Option<Backend>,
    ) -> Result<Placed, PlanError> {
        place(
            graph,
            self.targets().filter(|target| pinned.is_none_or(|side| side == target.backend)),
        )
    }

    /// What graphs can be planned for, the first first.
    fn targets(&self) -> impl Iterator<Item = &Target> {
        let cpu = self.0.cpu_allowed.then_some(&self.0.cpu);
        #[cfg(feature = "gpu")]
        let gpu = self.0.gpu.as_ref().map(|(_, target)| target);
        #[cfg(not(feature = "gpu"))]
        let gpu = None;
        cpu.into_iter().chain(gpu)
    }

    /// The limits that a plan for `backend` was made for.
    pub(crate) fn limits(&self, backend: Backend) -> &Limits {
        let target = self.targets().find(|target| target.backend == backend);
        &target.unwrap_or(&self.0.cpu).limits
    }

    pub(crate) fn pool(&self) -> &Arc<CpuPool> {
        &self.0.pool
    }

    #[cfg(feature = "gpu")]
    pub(crate) fn opened(&self) -> Option<&Gpu> {
        self.0.gpu.as_ref().map(|(gpu, _)| gpu)
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

fn profiles() -> Profiles {
    Profiles { cpu: DeviceProfile::cpu(crate::run::threads::count()), gpu: DeviceProfile::gpu() }
}

fn cpu_target() -> Target {
    Target { backend: Backend::Cpu, limits: Limits::cpu(), profiles: profiles() }
}
