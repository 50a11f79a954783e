//! The profile of a device as it is known now, and the targets that graphs are planned for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::trials::Trials;
use crate::base::sync::{Mutex, RwLock};
use crate::cost::{Backend, DeviceProfile, Limits};
use crate::plan::Target;

/// The profile of a device, which measuring and trials change while runs read it.
pub(in crate::device) struct ProfileStore {
    targets: RwLock<Arc<Targets>>,
    /// The revision of the targets, which runs read without a lock.
    revision: AtomicU64,
    /// The trials of single graphs, which the targets leave out.
    pub trials: Trials,
    /// Held while the profile changes.
    changing: Mutex<()>,
}

pub(crate) struct Targets {
    /// Counts the profiles of the device.
    pub revision: u64,
    pub cpu: Target,
    pub gpu: Option<Target>,
}

impl ProfileStore {
    /// The store of a device whose GPU, if there is one, has these limits.
    pub fn new(mut profile: DeviceProfile, gpu: Option<Limits>) -> Self {
        let trials = Trials::new(&std::mem::take(&mut profile.learned.trials));
        let targets = RwLock::new(Arc::new(Targets::new(profile, gpu, 0)));
        Self { targets, revision: AtomicU64::new(0), trials, changing: Mutex::default() }
    }

    /// The profile, with the trials of single graphs.
    pub fn profile(&self) -> DeviceProfile {
        let mut profile = self.targets().profile().clone();
        profile.learned.trials = self.trials.tried();
        profile
    }

    pub fn targets(&self) -> Arc<Targets> {
        Arc::clone(&self.targets.read())
    }

    /// [`Targets::revision`] as things stand.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Replaces the profile. Later plans are made with the new one.
    pub fn set(&self, profile: DeviceProfile) {
        self.change(|_| profile);
    }

    pub fn forget_learned(&self) {
        self.change(DeviceProfile::clone);
    }

    fn change(&self, change: impl FnOnce(&DeviceProfile) -> DeviceProfile) {
        let _changing = self.changing.lock();
        let mut profile = change(self.targets().profile());
        self.trials.replace(&std::mem::take(&mut profile.learned.trials));
        let mut targets = self.targets.write();
        let revision = targets.revision + 1;
        let gpu_limits = targets.gpu.as_ref().map(|target| target.limits.clone());
        *targets = Arc::new(Targets::new(profile, gpu_limits, revision));
        self.revision.store(revision, Ordering::Release);
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

    /// The profile, without the trials of single graphs.
    pub fn profile(&self) -> &DeviceProfile {
        &self.cpu.profile
    }

    /// The target of a side; the host's if there is no GPU.
    pub fn of(&self, backend: Backend) -> &Target {
        match backend {
            Backend::Cpu => &self.cpu,
            Backend::Gpu => self.gpu.as_ref().unwrap_or(&self.cpu),
        }
    }
}
