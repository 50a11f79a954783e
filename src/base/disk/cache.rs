//! Blobs on disk that can be made again: a file each, whole or not at all.
//!
//! Any number of processes may share a folder. A file that is damaged, cut short or of another version is as good
//! as none, and the folder may be deleted at any time.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::whole_file::{UNFINISHED, write_whole};

/// Bytes that the files of a folder may take.
const ROOM: u64 = 128 << 20;
/// The age from which the use of a file is noted, and an unfinished file counts as abandoned.
const STALE: Duration = Duration::from_secs(3600);
/// The first bytes of each file; the digit is the version of the format.
const MAGIC: &[u8; 8] = b"onetrip1";
const WHOLE: &str = "onetrip";

/// Blobs under keys.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    room: u64,
}

impl Store {
    /// The blobs in `folder`, which is made when the first is saved.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, room: ROOM }
    }

    /// The bytes saved under `key`; `None` if they are not there or damaged.
    pub fn load(&self, key: &str) -> Option<Vec<u8>> {
        check_private(&self.folder).ok()?;
        let path = self.path(key);
        let about = fs::metadata(&path).ok()?;
        // Opening a pipe would block until a writer opens it.
        if !about.is_file() || about.len() > self.room {
            return None;
        }
        let file = File::open(path).ok()?;
        let mut bytes = Vec::with_capacity(about.len() as usize);
        (&file).take(self.room).read_to_end(&mut bytes).ok()?;
        let blob = open(&bytes, key)?.to_vec();
        if age(&about) > STALE {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(blob)
    }

    /// Keeps `blob` under `key`, in place of an earlier one, and makes room by deleting the least recently used blobs.
    /// A blob that would take half of the room is not kept.
    ///
    /// # Errors
    /// Errors of the file system, or that others can write to the folder.
    pub fn save(&self, key: &str, blob: &[u8]) -> io::Result<()> {
        let bytes = seal(blob, key);
        if bytes.len() as u64 > self.room / 2 {
            return Ok(());
        }
        make_private(&self.folder)?;
        check_private(&self.folder)?;
        write_whole(&self.path(key), &bytes)?;
        self.make_room()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.{WHOLE}", hash(key.as_bytes())))
    }

    fn make_room(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let path = entry.path();
            // Another process may have deleted it.
            let Ok(about) = entry.metadata() else { continue };
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(WHOLE) => files.push((age(&about), about.len(), path)),
                Some(UNFINISHED) if age(&about) > STALE => drop(fs::remove_file(path)),
                _ => {}
            }
        }
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        files.sort_unstable();
        while bytes > self.room
            && let Some((_, size, path)) = files.pop()
        {
            let _ = fs::remove_file(path);
            bytes -= size;
        }
        Ok(())
    }
}

/// The folder for files that this user's programs can make again; `None` if there is none.
pub(crate) fn user_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    folder_in(variable, std::env::home_dir())
}

fn folder_in(variable: impl Fn(&str) -> Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else if cfg!(target_vendor = "apple") {
        home.map(|home| home.join("Library").join("Caches"))
    } else {
        let named = variable("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
        named.or_else(|| home.map(|home| home.join(".cache")))
    };
    Some(base.filter(|base| base.is_absolute())?.join("onetrip"))
}

/// A hash that stays the same from process to process (FNV-1a over words of 8 bytes, the last one filled
/// up with zeros, then the length).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().copied().chain([last, (bytes.len() as u64).to_le_bytes()]);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        let mixed = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        // A product carries upwards only.
        mixed ^ (mixed >> 32)
    })
}

/// A file's bytes: [`MAGIC`], the hash of the rest, the length of the key, the key, the blob.
fn seal(blob: &[u8], key: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(8 + key.len() + blob.len());
    body.extend_from_slice(&(key.len() as u64).to_le_bytes());
    body.extend_from_slice(key.as_bytes());
    body.extend_from_slice(blob);
    [&MAGIC[..], &hash(&body).to_le_bytes(), &body].concat()
}

fn open<'a>(bytes: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let body = bytes.strip_prefix(MAGIC)?;
    let (sum, body) = body.split_first_chunk::<8>()?;
    let (length, rest) = body.split_first_chunk::<8>()?;
    let sound = *sum == hash(body).to_le_bytes() && *length == (key.len() as u64).to_le_bytes();
    rest.strip_prefix(key.as_bytes()).filter(|_| sound)
}

/// Makes a folder that only this user can change.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Fails where another user could have put something in the folder.
#[cfg_attr(not(unix), expect(unused_variables, reason = "only Unix tells who owns a folder"))]
fn check_private(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let about = fs::metadata(folder)?;
        #[cfg(target_os = "linux")]
        // SAFETY: `geteuid` only reads a number of this process, and cannot fail.
        let foreign = about.uid() != unsafe { libc::geteuid() };
        #[cfg(not(target_os = "linux"))]
        let foreign = false;
        if foreign || about.mode() & 0o022 != 0 {
            let why = "other users can write to the folder, or own it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    Ok(())
}

/// The time since a file was used; zero for a file from the future.
fn age(about: &fs::Metadata) -> Duration {
    about.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("onetrip-store-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }

        fn store(&self) -> Store {
            Store::new(self.0.clone())
        }

        fn files(&self) -> Vec<PathBuf> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn blobs_come_back_under_their_keys_alone() {
        let folder = Folder::new("keys");
        let store = folder.store();
        assert_eq!(store.load("a"), None, "there is no folder yet");
        for (key, blob) in [("a", &b"one"[..]), ("b", b""), ("", b"no key"), ("a", b"two")] {
            store.save(key, blob).unwrap();
            assert_eq!(store.load(key).as_deref(), Some(blob));
        }
        assert_eq!(folder.store().load("a").as_deref(), Some(&b"two"[..]));
        assert_eq!(store.load("c"), None);
        assert_eq!(folder.files().len(), 3, "nothing unfinished is left");
        fs::rename(store.path("a"), store.path("c")).unwrap();
        assert_eq!(store.load("c"), None, "the key in the file decides");
    }

    #[test]
    fn every_damaged_byte_and_every_length_but_the_right_one_is_noticed() {
        let whole = seal(b"some blob", "key");
        assert_eq!(open(&whole, "key"), Some(&b"some blob"[..]));
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                assert_eq!(open(&damaged, "key"), None, "bit {bit} of byte {at}");
            }
            assert_eq!(open(&whole[..at], "key"), None, "cut to {at}");
        }
        assert_eq!(open(&[&whole[..], &[0]].concat(), "key"), None, "a zero too much");
    }

    #[test]
    fn what_was_used_last_stays_in_the_room() {
        let folder = Folder::new("room");
        let store = Store { room: 1000, ..folder.store() };
        let old = SystemTime::now() - 4 * STALE;
        for (index, key) in ["a", "b", "c"].into_iter().enumerate() {
            store.save(key, &[index as u8; 250]).unwrap();
            let file = File::options().write(true).open(store.path(key)).unwrap();
            file.set_modified(old + index as u32 * STALE / 2).unwrap();
        }
        let abandoned = folder.0.join(format!("x.{UNFINISHED}"));
        let foreign = folder.0.join("other");
        for path in [&abandoned, &foreign] {
            fs::write(path, [0; 2000]).unwrap();
            File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        }
        assert!(store.load("a").is_some(), "used again, so `b` is the oldest");
        store.save("d", &[3; 250]).unwrap();
        let there = ["a", "b", "c", "d"].map(|key| store.load(key).is_some());
        assert_eq!(there, [true, false, true, true]);
        assert!(foreign.exists() && !abandoned.exists());
        store.save("e", &[4; 600]).unwrap();
        assert_eq!(store.load("e"), None, "more than half of the room");
    }

    #[test]
    fn many_writers_leave_one_whole_blob() {
        let folder = Folder::new("writers");
        std::thread::scope(|scope| {
            for writer in 0..8u8 {
                let store = folder.store();
                scope.spawn(move || {
                    for _ in 0..20 {
                        store.save("key", &[writer; 5000]).unwrap();
                        let blob = store.load("key").unwrap();
                        assert!(blob.len() == 5000 && blob.iter().all(|&byte| byte == blob[0]));
                    }
                });
            }
        });
        assert_eq!(folder.files().len(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_no_file_is_as_good_as_none_and_waited_for_by_nobody() {
        use std::os::unix::ffi::OsStrExt;
        use std::sync::mpsc;

        let folder = Folder::new("kinds");
        let store = folder.store();
        store.save("pipe", b"blob").unwrap();
        fs::remove_file(store.path("pipe")).unwrap();
        let path = std::ffi::CString::new(store.path("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: `path` is a string that ends with a zero, and lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        fs::create_dir(store.path("folder")).unwrap();
        let (tell, told) = mpsc::channel();
        let opened = folder.store();
        std::thread::spawn(move || {
            let _ = tell.send(["pipe", "folder"].map(|key| opened.load(key)));
        });
        let loaded = told.recv_timeout(Duration::from_secs(60)).expect("it waits for nobody");
        assert_eq!(loaded, [None, None]);
        store.save("pipe", b"again").unwrap();
        assert_eq!(store.load("pipe").as_deref(), Some(&b"again"[..]));
        assert!(store.save("folder", b"blob").is_err());
        assert_eq!(folder.files().len(), 2, "nothing unfinished is left");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_and_holds_nothing() {
        let folder = Folder::new("file");
        fs::write(&folder.0, "a file").unwrap();
        assert!(folder.store().save("key", b"blob").is_err());
        assert_eq!(folder.store().load("key"), None);
        fs::remove_file(&folder.0).unwrap();
    }

    #[cfg(all(unix, not(target_vendor = "apple")))]
    #[test]
    fn the_user_s_folder_follows_the_xdg_rules() {
        let find = |named: Option<&str>, home: Option<&str>| {
            let named = named.map(PathBuf::from);
            let variable = |name: &str| named.clone().filter(|_| name == "XDG_CACHE_HOME");
            folder_in(variable, home.map(PathBuf::from))
        };
        let home = Some("/home/me");
        assert_eq!(find(Some("/cache"), home), Some("/cache/onetrip".into()));
        assert_eq!(find(Some("relative"), home), Some("/home/me/.cache/onetrip".into()));
        assert_eq!(find(None, home), Some("/home/me/.cache/onetrip".into()));
        assert_eq!(find(None, None), None);
    }
}
