//! Libraries stay loaded at the end of the process.
//!
//! Quirk: drivers have threads that nobody can wait for, and their libraries are unloaded while these run: by the
//! drivers themselves, and by Vulkan's loader. Seen with NVIDIA 580.159.04 on an H200 (thread `[vkps] Update`, one for
//! each device): 4 of 12 and 6 of 16 processes of `tests/recovery/main.rs` crashed. Tests: `tests/exits.rs`
//! (`Unloaded`), and below.

use std::ffi::{CStr, CString, c_int, c_void};

/// Has every loaded library stay until the process is gone, even if it is closed.
pub(super) fn pin() {
    for name in names() {
        // SAFETY: `name` is a string of C. Nothing is loaded: the library of this name is, or was, and only its flags change.
        unsafe {
            libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE)
        };
    }
}

/// The names of the loaded libraries. The program itself has none.
fn names() -> Vec<CString> {
    unsafe extern "C" fn add(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        names: *mut c_void,
    ) -> c_int {
        // SAFETY: `info` is valid for this call, its name a string of C or null, and `names` what is passed below.
        let (name, names) = unsafe { ((*info).dlpi_name, &mut *names.cast::<Vec<CString>>()) };
        if !name.is_null() {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(name) };
            names.extend((!name.is_empty()).then(|| name.to_owned()));
        }
        0
    }
    let mut names = Vec::new();
    // SAFETY: `add` is called before this returns, with `names`, and does not unwind: a panic in it would abort.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut names).cast()) };
    names
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Libraries of glibc that nobody here uses.
    const UNUSED: [&CStr; 3] = [c"libanl.so.1", c"libthread_db.so.1", c"libnss_hesiod.so.2"];

    fn is_loaded(name: &CStr) -> bool {
        // SAFETY: `name` is a string of C; nothing is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        // SAFETY: it was just opened.
        !handle.is_null() && unsafe { libc::dlclose(handle) } == 0
    }

    /// Loads the library and closes it, with `between` in between. `None` if there is no such library.
    fn load_and_release(name: &CStr, between: impl FnOnce()) -> Option<()> {
        // SAFETY: a library of glibc, which does nothing when it is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
        (!handle.is_null()).then(|| {
            between();
            // SAFETY: it was opened above.
            assert_eq!(unsafe { libc::dlclose(handle) }, 0);
        })
    }

    #[test]
    fn a_pinned_library_is_not_unloaded() {
        let unloads = |name: &&&CStr| load_and_release(name, || ()).is_some() && !is_loaded(name);
        let name = UNUSED.iter().find(unloads).expect("a library that can be unloaded");
        load_and_release(name, pin).unwrap();
        assert!(is_loaded(name));
        load_and_release(name, || ()).unwrap();
        assert!(is_loaded(name));
    }
}
