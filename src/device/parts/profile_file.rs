//! Profiles on disk, from process to process.

use std::sync::Arc;

use super::info::DeviceInfo;
use crate::base::disk::cache::Store;
use crate::base::disk::writer::DiskWriter;
use crate::base::sync::Mutex;
use crate::cost::DeviceProfile;

/// The place of one device's profile on disk.
pub(in crate::device) struct ProfileFile {
    store: Arc<Store>,
    key: String,
    /// The profile that the background writer has yet to write.
    later: Mutex<Option<DeviceProfile>>,
    /// Held while a profile is written.
    writing: Mutex<()>,
}

impl ProfileFile {
    pub fn new(store: Arc<Store>, info: &DeviceInfo) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        // Debug builds are slower, and so is everything that they measure.
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let DeviceInfo { name, api, driver, threads, .. } = info;
        let key = format!("profile {version} {build} {name} {api} {driver} {threads} threads");
        Self { store, key, later: Mutex::default(), writing: Mutex::default() }
    }

    /// The profile on disk; `None` if the file is missing, damaged or holds impossible rates.
    pub fn load(&self) -> Option<DeviceProfile> {
        let bytes = self.store.load(&self.key)?;
        decode(&bytes).filter(|profile| profile.check().is_ok())
    }

    /// Writes `profile` if that is possible, in place of one that was still to be written.
    pub fn save(&self, profile: impl FnOnce() -> DeviceProfile) {
        *self.later.lock() = None;
        let _writing = self.writing.lock();
        self.write(&profile());
    }

    /// As [`save`](Self::save), by `writer` in the background, unless a later profile comes before.
    pub fn save_later(
        self: &Arc<Self>,
        writer: &DiskWriter,
        profile: impl FnOnce() -> DeviceProfile,
    ) {
        // Made under the lock: a later caller knows more.
        let mut later = self.later.lock();
        let is_coming = later.replace(profile()).is_some();
        drop(later);
        if !is_coming {
            let file = Arc::clone(self);
            writer.spawn(move || {
                let _writing = file.writing.lock();
                let profile = file.later.lock().take();
                profile.iter().for_each(|profile| file.write(profile));
            });
        }
    }

    fn write(&self, profile: &DeviceProfile) {
        if let Some(bytes) = encode(profile) {
            // If nothing can be written, the next process measures again.
            drop(self.store.save(&self.key, &bytes));
        }
    }
}

#[cfg(feature = "serde")]
fn encode(profile: &DeviceProfile) -> Option<Vec<u8>> {
    serde_json::to_vec(profile).ok()
}

#[cfg(feature = "serde")]
fn decode(bytes: &[u8]) -> Option<DeviceProfile> {
    // A program is read from text too, by the same functions.
    serde_json::from_str(str::from_utf8(bytes).ok()?).ok()
}

#[cfg(not(feature = "serde"))]
fn encode(_: &DeviceProfile) -> Option<Vec<u8>> {
    None
}

#[cfg(not(feature = "serde"))]
fn decode(_: &[u8]) -> Option<DeviceProfile> {
    None
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cost::Curve;

    fn profile_file(folder: &Path, name: &str) -> ProfileFile {
        let info = DeviceInfo {
            name: name.into(),
            api: "test".into(),
            driver: "1".into(),
            software: false,
            threads: 4,
            fallback: None,
        };
        ProfileFile::new(Arc::new(Store::new(folder.to_path_buf())), &info)
    }

    #[test]
    fn profiles_come_back_as_they_were_for_their_device_alone() {
        let folder = std::env::temp_dir().join(format!("onetrip-keep-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let kept = profile_file(&folder, "a");
        assert_eq!(kept.load(), None, "there is no folder yet");
        let mut profile = DeviceProfile::typical(4);
        profile.measured = true;
        profile.gpu.memory = Curve::new([(1024.0, 1.235e9), (65_536.0, 4.1e12)]);
        profile.gpu.dispatch = 3.713e-6;
        kept.save(|| profile.clone());
        assert_eq!(profile_file(&folder, "a").load().as_ref(), Some(&profile));
        assert_eq!(profile_file(&folder, "b").load(), None);

        for damaged in [&b""[..], b"{}", b"[1, 2]", b"\xff\xfe", b"{\"measured\": true}"] {
            kept.store.save(&kept.key, damaged).unwrap();
            assert_eq!(kept.load(), None, "{damaged:?}");
        }
        profile.gpu.memory = Curve::new([(1024.0, -1.0)]);
        kept.save(|| profile.clone());
        assert_eq!(kept.load(), None, "a rate below nothing was never measured");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_saved_later_is_there_when_the_writer_is_gone_unless_it_was_replaced() {
        let folder = std::env::temp_dir().join(format!("onetrip-soon-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let of = |threads| {
            let mut profile = DeviceProfile::typical(threads);
            profile.measured = true;
            profile
        };
        for round in 1..20 {
            let (kept, writer) = (Arc::new(profile_file(&folder, "a")), DiskWriter::default());
            kept.save_later(&writer, || of(round));
            kept.save_later(&writer, || of(round + 1));
            drop(writer);
            assert_eq!(profile_file(&folder, "a").load(), Some(of(round + 1)));
            let writer = DiskWriter::default();
            kept.save_later(&writer, || of(round));
            kept.save(|| of(100));
            drop(writer);
            assert_eq!(profile_file(&folder, "a").load(), Some(of(100)));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
