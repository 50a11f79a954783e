//! Libraries at the end of the process. Drivers have threads that nobody can wait for, and are unloaded while these run:
//! by themselves, and by Vulkan's loader.

use std::ffi::{CStr, CString, c_int, c_void};

/// Has everything that is loaded stay until the process is gone, whoever lets go of it.
pub(crate) fn keep() {
    for name in names() {
        // SAFETY: `name` is a string of C. Nothing is loaded: what has this name is, or was, and only its flags change.
        unsafe {
            libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE)
        };
    }
}

/// The names of what is loaded, without the program itself, which has none.
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

    /// Of glibc, and used by nobody here.
    const UNUSED: [&CStr; 3] = [c"libanl.so.1", c"libthread_db.so.1", c"libnss_hesiod.so.2"];

    fn is_loaded(name: &CStr) -> bool {
        // SAFETY: `name` is a string of C; nothing is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        // SAFETY: it was just opened.
        !handle.is_null() && unsafe { libc::dlclose(handle) } == 0
    }

    /// Loads the library and lets go of it, with `between` in between. `None` if there is no such library.
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
    fn what_is_kept_is_not_unloaded() {
        let unloads = |name: &&&CStr| load_and_release(name, || ()).is_some() && !is_loaded(name);
        let name = UNUSED.iter().find(unloads).expect("a library that can be unloaded");
        load_and_release(name, keep).unwrap();
        assert!(is_loaded(name));
        load_and_release(name, || ()).unwrap();
        assert!(is_loaded(name));
    }
}
