//! Profiles on disk, from process to process.

use std::sync::Arc;

use super::DeviceInfo;
use crate::cost::DeviceProfile;
use crate::store::Store;

/// Where the profile of one device lies.
#[derive(Clone)]
pub(super) struct Keep {
    store: Arc<Store>,
    key: String,
}

impl Keep {
    pub fn new(store: Arc<Store>, info: &DeviceInfo) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        // What was compiled for finding mistakes is slower.
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let DeviceInfo { name, api, driver, threads, .. } = info;
        let key = format!("profile {version} {build} {name} {api} {driver} {threads} threads");
        Self { store, key }
    }

    /// What was kept; `None` if there is nothing, or nothing that could have been measured.
    pub fn load(&self) -> Option<DeviceProfile> {
        let bytes = self.store.load(&self.key)?;
        let profile: DeviceProfile = serde_json::from_slice(&bytes).ok()?;
        profile.check().ok()?;
        Some(profile)
    }

    /// Keeps `profile` if that is possible.
    pub fn save(&self, profile: &DeviceProfile) {
        if let Ok(bytes) = serde_json::to_vec(profile) {
            // Where nothing can be written, it is measured again next time.
            drop(self.store.save(&self.key, &bytes));
        }
    }
}
