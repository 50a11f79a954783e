//! Profiles on disk, from process to process.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::DeviceInfo;
use crate::cost::DeviceProfile;
use crate::store::Store;

/// Where the profile of one device lies.
#[derive(Clone)]
pub(super) struct Keep {
    store: Arc<Store>,
    key: String,
    /// What a thread that was started is still to write.
    later: Arc<Mutex<Option<DeviceProfile>>>,
    /// Held by who writes.
    writing: Arc<Mutex<()>>,
}

impl Keep {
    pub fn new(store: Arc<Store>, info: &DeviceInfo) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        // What was compiled for finding mistakes is slower.
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let DeviceInfo { name, api, driver, threads, .. } = info;
        let key = format!("profile {version} {build} {name} {api} {driver} {threads} threads");
        Self { store, key, later: Arc::default(), writing: Arc::default() }
    }

    /// What was kept; `None` if there is nothing, or nothing that could have been measured.
    pub fn load(&self) -> Option<DeviceProfile> {
        let bytes = self.store.load(&self.key)?;
        let profile: DeviceProfile = serde_json::from_slice(&bytes).ok()?;
        profile.check().ok()?;
        Some(profile)
    }

    /// Keeps `profile` if that is possible, in place of whatever was to be kept before.
    pub fn save(&self, profile: &DeviceProfile) {
        *self.later.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(profile);
    }

    /// As [`save`](Self::save), by a thread of its own, unless a later one comes before.
    pub fn save_soon(&self, profile: DeviceProfile) {
        let before = self.later.lock().unwrap_or_else(PoisonError::into_inner).replace(profile);
        if before.is_some() {
            return;
        }
        let keep = self.clone();
        let write = move || {
            let _writing = keep.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let profile = keep.later.lock().unwrap_or_else(PoisonError::into_inner).take();
            profile.iter().for_each(|profile| keep.write(profile));
        };
        // Without a thread, the next one that is kept will do.
        if thread::Builder::new().name("onetrip-keep".into()).spawn(write).is_err() {
            *self.later.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    fn write(&self, profile: &DeviceProfile) {
        if let Ok(bytes) = serde_json::to_vec(profile) {
            // Where nothing can be written, it is measured again next time.
            drop(self.store.save(&self.key, &bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cost::Curve;

    fn keep(folder: &Path, name: &str) -> Keep {
        let info = DeviceInfo {
            name: name.into(),
            api: "test".into(),
            driver: "1".into(),
            software: false,
            threads: 4,
            fallback: None,
        };
        Keep::new(Arc::new(Store::new(folder.to_path_buf())), &info)
    }

    #[test]
    fn profiles_come_back_as_they_were_for_their_device_alone() {
        let folder = std::env::temp_dir().join(format!("onetrip-keep-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let kept = keep(&folder, "a");
        assert_eq!(kept.load(), None, "there is no folder yet");
        let mut profile = DeviceProfile::typical(4);
        profile.measured = true;
        profile.gpu.memory = Curve::new([(1024.0, 1.235e9), (65_536.0, 4.1e12)]);
        profile.gpu.dispatch = 3.713e-6;
        kept.save(&profile);
        assert_eq!(keep(&folder, "a").load().as_ref(), Some(&profile));
        assert_eq!(keep(&folder, "b").load(), None);

        for damaged in [&b""[..], b"{}", b"[1, 2]", b"\xff\xfe", b"{\"measured\": true}"] {
            kept.store.save(&kept.key, damaged).unwrap();
            assert_eq!(kept.load(), None, "{damaged:?}");
        }
        profile.gpu.memory = Curve::new([(1024.0, -1.0)]);
        kept.save(&profile);
        assert_eq!(kept.load(), None, "a rate below nothing was never measured");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
