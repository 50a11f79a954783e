//! What a device is reckoned to do: the targets that graphs are planned for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::contests::Contests;
use crate::base::sync::{Mutex, MutexGuard, RwLock};
use crate::cost::{Aspect, Backend, DeviceProfile, Learned, Lessons, Limits};
use crate::plan::Target;

/// What graphs can be planned for, with the profile as it is known now.
pub(super) struct Reckoning {
    targets: RwLock<Arc<Targets>>,
    /// That of the targets, so that runs need not lock them.
    revision: AtomicU64,
    /// What the profile says of single graphs, which the targets leave out.
    pub contests: Contests,
    /// Held while the profile changes.
    lessons: Mutex<Lessons>,
    /// Whether the lessons are, so that most runs need not look.
    is_unsure: AtomicBool,
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
    pub fn new(mut profile: DeviceProfile, gpu: Option<Limits>) -> Self {
        let contests = Contests::new(&std::mem::take(&mut profile.learned.trials));
        let targets = RwLock::new(Arc::new(Targets::new(profile, gpu, 0)));
        Self {
            targets,
            revision: AtomicU64::new(0),
            contests,
            lessons: Mutex::default(),
            is_unsure: AtomicBool::new(false),
        }
    }

    /// The profile with all that was learned.
    pub fn profile(&self) -> DeviceProfile {
        let mut profile = self.targets().profile().clone();
        profile.learned.trials = self.contests.tried();
        profile
    }

    pub fn targets(&self) -> Arc<Targets> {
        Arc::clone(&self.targets.read())
    }

    /// [`Targets::revision`] as things stand.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Plans from now on are made with `profile`.
    pub fn set(&self, profile: DeviceProfile) {
        self.change(|_| profile);
    }

    /// Plans from now on are made without what runs taught.
    pub fn forget_learned(&self) {
        self.change(without_learned);
    }

    fn change(&self, change: impl FnOnce(&DeviceProfile) -> DeviceProfile) {
        let mut lessons = self.lessons();
        *lessons = Lessons::default();
        self.is_unsure.store(false, Ordering::Relaxed);
        let mut profile = change(self.targets().profile());
        self.contests.replace(&std::mem::take(&mut profile.learned.trials));
        self.replace(profile);
    }

    /// Whether a run says something that was [off by so many steps](crate::cost::steps_off).
    pub fn is_news(&self, off: f64) -> bool {
        off != 0.0 || self.is_unsure.load(Ordering::Relaxed)
    }

    /// Takes note of a run that was off by so many steps, predicted as the sum of `parts` with what `targets` says.
    /// Whether plans from now on are made with other corrections.
    pub fn learn(&self, targets: &Targets, parts: &[(Aspect, f64)], off: f64) -> bool {
        let mut lessons = self.lessons();
        let profile = targets.profile();
        if self.targets().revision != targets.revision {
            return false;
        }
        let corrections = lessons.learn(&profile.learned.corrections, parts, off);
        self.is_unsure.store(lessons.is_unsure(), Ordering::Relaxed);
        if let Some(corrections) = corrections {
            let learned = Learned { corrections, ..Learned::default() };
            self.replace(DeviceProfile { learned, ..profile.clone() });
        }
        corrections.is_some()
    }

    fn lessons(&self) -> MutexGuard<'_, Lessons> {
        self.lessons.lock()
    }

    fn replace(&self, profile: DeviceProfile) {
        let mut targets = self.targets.write();
        let revision = targets.revision + 1;
        *targets = Arc::new(Targets::new(profile, targets.gpu_limits(), revision));
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

    /// Without what is known of single graphs.
    pub fn profile(&self) -> &DeviceProfile {
        &self.cpu.profile
    }

    /// The same, as the profile was before it learned.
    pub fn without_learned(&self) -> Self {
        Self::new(without_learned(self.profile()), self.gpu_limits(), self.revision)
    }

    fn gpu_limits(&self) -> Option<Limits> {
        self.gpu.as_ref().map(|target| target.limits.clone())
    }

    /// The target of a side; the host's where there is no GPU.
    pub fn of(&self, backend: Backend) -> &Target {
        match backend {
            Backend::Cpu => &self.cpu,
            Backend::Gpu => self.gpu.as_ref().unwrap_or(&self.cpu),
        }
    }
}

fn without_learned(profile: &DeviceProfile) -> DeviceProfile {
    DeviceProfile { learned: Learned::default(), ..profile.clone() }
}
