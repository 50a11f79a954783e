//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The extension of files that are not complete.
pub(crate) const UNFINISHED: &str = "onetrip-part";

/// Writes a file beside `path`, under a name that no other process or thread uses, and moves it to `path`. A reader of
/// `path` sees the old file or the new one.
///
/// # Errors
/// Errors of the file system. After one, `path` is as it was.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (process, count) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let part = path.with_extension(format!("{process}-{count}.{UNFINISHED}"));
    let written = File::create_new(&part)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
