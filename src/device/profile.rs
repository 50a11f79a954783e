//! The profile of a device: read, and forgotten in part.

use std::sync::Arc;

use super::Device;
use super::parts::profile_store::Targets;
use crate::cost::DeviceProfile;

/// The measured speed.
impl Device {
    /// Forgets the trials of all graphs, here and on disk.
    ///
    /// ```
    /// let device = onetrip::Device::cpu();
    /// device.forget_learned();
    /// assert!(device.profile().learned.is_empty());
    /// ```
    pub fn forget_learned(&self) {
        self.0.profiles.forget_learned();
    }

    /// The targets that graphs are planned for now.
    pub(crate) fn targets(&self) -> Arc<Targets> {
        self.0.profiles.store.targets()
    }

    /// The speed of both sides of the device, as it is known now.
    #[must_use]
    pub fn profile(&self) -> DeviceProfile {
        self.0.profiles.store.profile()
    }

    /// Uses `profile` from now on.
    #[cfg(all(test, feature = "gpu"))]
    pub(crate) fn set_profile(&self, profile: DeviceProfile) {
        self.0.profiles.store.set(profile);
    }
}
