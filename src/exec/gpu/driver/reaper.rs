//! Devices are closed, and parts of them dropped, on threads of their own, and not while the process ends.
//!
//! Quirks:
//! - Closing a lost device takes long, with some driver forever (the driver was not recorded).
//! - Dropping thousands of bind groups takes milliseconds: 4096 took NVIDIA 580.159.04 on an H200 69 to 78 ms after a loss.
//! - Destroying pipelines or closing devices while the driver is unloaded crashes: NVIDIA, 6 of 9 processes that returned
//!   from `main` right after two losses.
//!
//! Tests: `tests/exits.rs` (`Lost`), and below.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use super::driver_lock::{self, CallGuard};
use super::exit_guard::ExitGuard;
use crate::base::process::caught;

type AnyHandle = Arc<dyn Any + Send + Sync>;

/// A thread that drops the handles it is given.
struct Reaper {
    name: &'static str,
    /// Takes the driver lock for one drop.
    lock: fn() -> Option<CallGuard<'static>>,
    sender: OnceLock<Option<mpsc::Sender<AnyHandle>>>,
}

static DEVICES: Reaper = Reaper::new("onetrip-close", || Some(driver_lock::long()));
/// A thread apart: parts of live devices wait for no lost device.
static PARTS: Reaper = Reaper::new("onetrip-drop", || None);

impl Reaper {
    const fn new(name: &'static str, lock: fn() -> Option<CallGuard<'static>>) -> Self {
        Self { name, lock, sender: OnceLock::new() }
    }

    /// Drops `handle` on the thread; here, if none can be started.
    fn reap(&self, handle: AnyHandle) {
        let sender = self.sender.get_or_init(|| {
            let (sender, handles) = mpsc::channel::<AnyHandle>();
            // It never ends, since a driver may hang where a thread that called it ends.
            let thread = thread::Builder::new().name(self.name.into());
            let lock = self.lock;
            thread.spawn(move || reap_all(&handles, ExitGuard::with_exit_handlers(), lock)).ok()?;
            Some(sender)
        });
        if let Some(sender) = sender {
            let _ = sender.send(handle);
        }
    }
}

/// Drops a handle of a device, or of parts of a lost one, on a thread of its own once nobody else holds it.
pub(crate) fn close<T: Send + Sync + 'static>(device: Arc<T>) {
    DEVICES.reap(device);
}

/// Drops `parts` of a device on another thread: thousands of bind groups, or one while a driver compiles, take it
/// milliseconds.
pub(crate) fn release<T: Send + Sync + 'static>(parts: T) {
    PARTS.reap(Arc::new(parts));
}

/// Waits until the parts [released](release) before are dropped, but no longer than `patience`.
pub(crate) fn catch_up(patience: Duration) {
    let (handle, dropped) = mpsc::channel::<()>();
    release(handle);
    // A browser has one thread, on which all of them are dropped.
    if cfg!(target_arch = "wasm32") {
        return;
    }
    let _ = dropped.recv_timeout(patience);
}

/// Drops each handle once nobody else holds it, under the driver lock. Returns when all senders are gone.
fn reap_all(
    handles: &mpsc::Receiver<AnyHandle>,
    guard: &ExitGuard,
    lock: fn() -> Option<CallGuard<'static>>,
) {
    const SHORTEST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);
    let mut held: Vec<AnyHandle> = Vec::new();
    while let Ok(first) = handles.recv() {
        held.push(first);
        let mut wait = SHORTEST;
        loop {
            let before = held.len();
            let free = held.extract_if(.., |handle| Arc::strong_count(handle) == 1);
            let free: Vec<_> = free.collect();
            if !free.is_empty() {
                let _long = lock();
                free.into_iter().for_each(|handle| drop_by(guard, handle));
            }
            if held.is_empty() {
                break;
            }
            wait = if held.len() < before { SHORTEST } else { LONGEST.min(2 * wait) };
            match handles.recv_timeout(wait) {
                Ok(next) => {
                    held.push(next);
                    wait = SHORTEST;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => thread::sleep(wait),
            }
        }
    }
}

/// Drops `parts`, or leaves them to the system once the guard is shut.
fn drop_by<T>(guard: &ExitGuard, parts: T) {
    let parts = ManuallyDrop::new(parts);
    // The thread must outlive a panic in a driver.
    guard.pass(|| _ = caught(|| drop(ManuallyDrop::into_inner(parts))));
}

/// Objects that a driver destroys when this is dropped. While the process ends they are left to the system.
pub(crate) struct DriverOwned<T>(Option<T>);

impl<T> DriverOwned<T> {
    pub const fn new(objects: T) -> Self {
        Self(Some(objects))
    }
}

impl<T> Deref for DriverOwned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is taken out only while it is dropped")
    }
}

impl<T> Drop for DriverOwned<T> {
    fn drop(&mut self) {
        self.0
            .take()
            .into_iter()
            .for_each(|objects| drop_by(ExitGuard::with_exit_handlers(), objects));
    }
}

#[cfg(test)]
mod tests {
    use crate::base::sync::Mutex;

    use super::*;

    /// Sends its name when it is dropped.
    struct Dropped(mpsc::Sender<u8>, u8);

    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }

    #[test]
    fn parts_released_before_are_dropped_when_the_reaper_has_caught_up() {
        let (sender, dropped) = mpsc::channel();
        for name in 0..100 {
            release(Dropped(sender.clone(), name));
        }
        catch_up(Duration::from_secs(10));
        assert!(dropped.try_iter().eq(0..100));
    }

    #[test]
    fn a_device_that_takes_forever_to_close_keeps_nothing_of_others() {
        struct Hangs(Mutex<mpsc::Receiver<()>>);

        impl Drop for Hangs {
            fn drop(&mut self) {
                let _ = self.0.lock().recv();
            }
        }

        let (end, ended) = mpsc::channel();
        close(Arc::new(Hangs(Mutex::new(ended))));
        let (sender, dropped) = mpsc::channel();
        release(Dropped(sender, 0));
        catch_up(Duration::from_secs(10));
        assert_eq!(dropped.try_recv(), Ok(0));
        drop(end);
    }

    #[test]
    fn a_device_that_is_held_keeps_no_other_open() {
        let (reaper, handles) = mpsc::channel::<AnyHandle>();
        let (sender, dropped) = mpsc::channel();
        let closing = thread::spawn(move || reap_all(&handles, &ExitGuard::new(), || None));
        let devices = [0, 1, 2].map(|name| Arc::new(Dropped(sender.clone(), name)));
        for device in &devices {
            reaper.send(Arc::clone(device) as AnyHandle).unwrap();
        }
        let [held, second, third] = devices;
        drop(third);
        assert_eq!(dropped.recv(), Ok(2));
        drop(second);
        assert_eq!(dropped.recv(), Ok(1));
        drop(held);
        assert_eq!(dropped.recv(), Ok(0));
        drop(reaper);
        closing.join().unwrap();
    }
}
