//! A library that a thread is in while it is unloaded at the end of the process, as some drivers are.

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;
use std::time::Duration;

/// The library that is closed at the end.
static LOADED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Loads a copy of the C library's mathematics, has a thread call it forever, and the end of the process unload it. To
/// be called before anything is to keep it.
pub fn load() {
    let gamma = symbol(open(c"libm.so.6"));
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `info` is written if that succeeds; its name is a string of C that stays as long as the library does.
    let original = unsafe {
        assert_ne!(libc::dladdr(gamma, info.as_mut_ptr()), 0);
        CStr::from_ptr(info.assume_init().dli_fname)
    };
    let copy = std::env::temp_dir().join(format!("onetrip-exits-{}.so", std::process::id()));
    std::fs::copy(original.to_str().expect("a path"), &copy).expect("a copy of the library");
    let name = CString::new(copy.to_str().expect("a path")).expect("no zero in it");
    let handle = open(&name);
    let _ = std::fs::remove_file(copy);
    let gamma = symbol(handle);
    // SAFETY: that is what this symbol is.
    let gamma: extern "C" fn(f64) -> f64 = unsafe { std::mem::transmute(gamma) };
    thread::spawn(move || {
        loop {
            std::hint::black_box(gamma(std::hint::black_box(2.5)));
        }
    });
    LOADED.store(handle, Ordering::Release);
    // SAFETY: `unload` is a function of the C interface that stays.
    unsafe { libc::atexit(unload) };
}

extern "C" fn unload() {
    // SAFETY: it was opened once, and is closed once.
    unsafe { libc::dlclose(LOADED.load(Ordering::Acquire)) };
    thread::sleep(Duration::from_millis(50));
}

fn open(name: &CStr) -> *mut c_void {
    const HOW: c_int = libc::RTLD_NOW;
    // SAFETY: `name` is a string of C; the library may be loaded by anybody.
    let handle = unsafe { libc::dlopen(name.as_ptr(), HOW) };
    assert!(!handle.is_null(), "{name:?}");
    handle
}

fn symbol(library: *mut c_void) -> *mut c_void {
    // SAFETY: the library is open.
    let symbol = unsafe { libc::dlsym(library, c"tgamma".as_ptr()) };
    assert!(!symbol.is_null());
    symbol
}
