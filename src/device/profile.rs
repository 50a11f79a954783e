//! The profile of a device: read, replaced, forgotten in part, and kept on disk.

use std::sync::Arc;

use super::Device;
use super::parts::profile_store::Targets;
use crate::cost::DeviceProfile;

#[derive(Clone, Copy)]
pub(super) enum When {
    Now,
    /// A thread of its own writes it.
    Soon,
}

impl Device {
    /// Forgets the trials of all graphs, here and on disk.
    pub fn forget_learned(&self) {
        self.0.profile_store.forget_learned();
        self.0.plans.forget();
        self.save_profile(When::Now);
    }

    /// Writes the profile to disk, if it was measured here.
    pub(super) fn save_profile(&self, when: When) {
        if let (Some(profile_file), false) = (&self.0.profile_file, self.0.by_hand)
            && self.targets().profile().measured
        {
            match when {
                When::Now => profile_file.disk().save(|| self.profile()),
                When::Soon => profile_file.save_soon(|| self.profile()),
            }
        }
    }

    /// The targets that graphs are planned for now.
    pub(crate) fn targets(&self) -> Arc<Targets> {
        self.0.profile_store.targets()
    }

    /// The speed of both sides of the device, as it is known now.
    #[must_use]
    pub fn profile(&self) -> DeviceProfile {
        self.0.profile_store.profile()
    }

    /// Uses `profile` from now on.
    #[cfg(all(test, feature = "gpu"))]
    pub(crate) fn set_profile(&self, profile: DeviceProfile) {
        self.0.profile_store.set(profile);
    }
}
