//! All that hangs on the profile of a device: the targets, the trials, the plans made with it, and its file.

use super::info::DeviceInfo;
use super::plan_cache::PlanCache;
use super::profile_file::ProfileFile;
use super::profile_store::ProfileStore;
use crate::base::disk::writer::DiskWriter;
use crate::base::sync::Arc;
use crate::cost::{DeviceProfile, Limits, Trial};
use crate::graph::Fingerprint;

/// The profile of a device, with all that changes with it. Dropping it waits until the last profile is written.
pub(in crate::device) struct Profiles {
    pub store: ProfileStore,
    pub plans: PlanCache,
    file: Option<Arc<ProfileFile>>,
    writer: DiskWriter,
    /// True if the user gave the profile.
    is_given: bool,
}

impl Profiles {
    /// The profile `given` by the user, else the one in `file`, else the typical figures for `info`. `gpu` has the limits of
    /// the GPU, if there is one.
    pub fn new(
        given: Option<DeviceProfile>,
        file: Option<ProfileFile>,
        info: &DeviceInfo,
        gpu: Option<Limits>,
    ) -> Self {
        let is_given = given.is_some();
        let profile = given.or_else(|| file.as_ref()?.load());
        let profile = profile.unwrap_or_else(|| match info.software {
            true => DeviceProfile::typical_with_software(info.threads),
            false => DeviceProfile::typical(info.threads),
        });
        Self {
            store: ProfileStore::new(profile, gpu),
            plans: PlanCache::default(),
            file: file.map(Arc::new),
            writer: DiskWriter::default(),
            is_given,
        }
    }

    /// Returns whether the profile was measured or given by the user.
    pub fn are_known(&self) -> bool {
        self.is_given || self.store.targets().profile().measured
    }

    /// Returns whether a measurement in the background could be kept, and would tell more than is known.
    pub fn want_measuring(&self) -> bool {
        self.file.is_some() && !self.are_known()
    }

    /// Plans with `profile` from now on, and writes it to disk.
    pub fn adopt(&self, profile: DeviceProfile) {
        self.store.set(profile);
        self.plans.forget();
        if let Some(file) = &self.file {
            // With the trials that were decided meanwhile.
            file.save(|| self.store.profile());
        }
    }

    /// Forgets the trials of all graphs, here and on disk.
    pub fn forget_learned(&self) {
        self.store.forget_learned();
        self.plans.forget();
        if let Some(file) = self.measured_file() {
            file.save(|| self.store.profile());
        }
    }

    /// Forgets the plans of `graph` that its decided `trial` rules out. The trial is written to disk in the background.
    pub fn decided(&self, graph: Fingerprint, trial: &Trial) {
        self.plans.forget_routes(graph, trial.decided_route());
        if let Some(file) = self.measured_file() {
            file.save_later(&self.writer, || self.store.profile());
        }
    }

    /// The file, if the profile was measured here.
    fn measured_file(&self) -> Option<&Arc<ProfileFile>> {
        let is_measured = !self.is_given && self.store.targets().profile().measured;
        self.file.as_ref().filter(|_| is_measured)
    }
}
