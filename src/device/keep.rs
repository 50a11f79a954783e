//! Profiles on disk, from process to process.

use std::sync::Arc;
use std::thread;

use super::DeviceInfo;
use crate::base::disk_cache::Store;
use crate::base::sync::{Mutex, MutexGuard};
use crate::cost::DeviceProfile;

/// Where the profile of one device lies. Whoever drops it waits until what is to be written is.
pub(super) struct Keep(Arc<Disk>);

/// The same for who writes only.
pub(super) struct Disk {
    store: Arc<Store>,
    key: String,
    /// What a thread that was started is still to write.
    later: Mutex<Option<DeviceProfile>>,
    /// Held by who writes.
    writing: Mutex<()>,
}

impl Keep {
    pub fn new(store: Arc<Store>, info: &DeviceInfo) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        // What was compiled for finding mistakes is slower.
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let DeviceInfo { name, api, driver, threads, .. } = info;
        let key = format!("profile {version} {build} {name} {api} {driver} {threads} threads");
        Self(Arc::new(Disk { store, key, later: Mutex::default(), writing: Mutex::default() }))
    }

    pub fn disk(&self) -> &Arc<Disk> {
        &self.0
    }

    /// What was kept; `None` if there is nothing, or nothing that could have been measured.
    pub fn load(&self) -> Option<DeviceProfile> {
        let bytes = self.0.store.load(&self.0.key)?;
        let profile: DeviceProfile = serde_json::from_slice(&bytes).ok()?;
        profile.check().ok()?;
        Some(profile)
    }

    /// As [`Disk::save`], by a thread of its own, unless a later one comes before.
    pub fn save_soon(&self, profile: impl FnOnce() -> DeviceProfile) {
        // Asked for while nobody else can be: who comes later knows more.
        let mut later = self.0.later();
        let is_coming = later.replace(profile()).is_some();
        drop(later);
        if is_coming {
            return;
        }
        let disk = Arc::clone(&self.0);
        // Without a thread, whoever drops this writes it.
        let _ = thread::Builder::new().name("onetrip-keep".into()).spawn(move || disk.flush());
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        self.0.flush();
    }
}

impl Disk {
    /// Keeps `profile` if that is possible, in place of whatever was to be kept before.
    pub fn save(&self, profile: impl FnOnce() -> DeviceProfile) {
        *self.later() = None;
        let _writing = self.writing.lock();
        self.write(&profile());
    }

    /// Writes what is still to be written.
    fn flush(&self) {
        let _writing = self.writing.lock();
        let profile = self.later().take();
        profile.iter().for_each(|profile| self.write(profile));
    }

    fn later(&self) -> MutexGuard<'_, Option<DeviceProfile>> {
        self.later.lock()
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
        kept.disk().save(|| profile.clone());
        assert_eq!(keep(&folder, "a").load().as_ref(), Some(&profile));
        assert_eq!(keep(&folder, "b").load(), None);

        for damaged in [&b""[..], b"{}", b"[1, 2]", b"\xff\xfe", b"{\"measured\": true}"] {
            kept.0.store.save(&kept.0.key, damaged).unwrap();
            assert_eq!(kept.load(), None, "{damaged:?}");
        }
        profile.gpu.memory = Curve::new([(1024.0, -1.0)]);
        kept.disk().save(|| profile.clone());
        assert_eq!(kept.load(), None, "a rate below nothing was never measured");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_kept_soon_is_there_when_the_device_is_gone_unless_it_was_replaced() {
        let folder = std::env::temp_dir().join(format!("onetrip-soon-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let of = |threads| {
            let mut profile = DeviceProfile::typical(threads);
            profile.measured = true;
            profile
        };
        for round in 1..20 {
            let kept = keep(&folder, "a");
            kept.save_soon(|| of(round));
            kept.save_soon(|| of(round + 1));
            drop(kept);
            assert_eq!(keep(&folder, "a").load(), Some(of(round + 1)));
            let kept = keep(&folder, "a");
            kept.save_soon(|| of(round));
            kept.disk().save(|| of(100));
            drop(kept);
            assert_eq!(keep(&folder, "a").load(), Some(of(100)));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
