//! What a device is reckoned to do: the targets that graphs are planned for.

use std::sync::{Arc, PoisonError, RwLock};

use crate::cost::{Backend, DeviceProfile, Limits};
use crate::plan::Target;

/// What graphs can be planned for, with the profile as it is known now.
pub(super) struct Reckoning {
    targets: RwLock<Arc<Targets>>,
}

/// A target for each side of a device.
pub(crate) struct Targets {
    /// Counts the profiles that the device had.
    pub revision: u64,
    pub cpu: Target,
    pub gpu: Option<Target>,
}

impl Reckoning {
    /// For a device whose GPU, if it has one, has these limits.
    pub fn new(profile: DeviceProfile, gpu: Option<Limits>) -> Self {
        Self { targets: RwLock::new(Arc::new(Targets::new(profile, gpu, 0))) }
    }

    pub fn targets(&self) -> Arc<Targets> {
        Arc::clone(&self.targets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Plans from now on are made with `profile`.
    pub fn set(&self, profile: DeviceProfile) {
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        let gpu = targets.gpu.as_ref().map(|target| target.limits.clone());
        *targets = Arc::new(Targets::new(profile, gpu, targets.revision + 1));
    }
}

impl Targets {
    fn new(profile: DeviceProfile, gpu: Option<Limits>, revision: u64) -> Self {
        let profile = Arc::new(profile);
        let target = |backend, limits| Target { backend, limits, profile: Arc::clone(&profile) };
        Self {
            revision,
            cpu: target(Backend::Cpu, Limits::cpu()),
            gpu: gpu.map(|limits| target(Backend::Gpu, limits)),
        }
    }

    pub fn profile(&self) -> &DeviceProfile {
        &self.cpu.profile
    }

    /// The target of a side; the host's where there is no GPU.
    pub fn of(&self, backend: Backend) -> &Target {
        match backend {
            Backend::Cpu => &self.cpu,
            Backend::Gpu => self.gpu.as_ref().unwrap_or(&self.cpu),
        }
    }
}
