//! Closing devices, and dropping parts of them, on threads of their own, and not while the process ends.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use crate::base::panic::caught;
use crate::exec::gpu::driver::driver_lock::{self, Long};
use crate::exec::gpu::driver::exit_guard::ExitGuard;

type Handle = Arc<dyn Any + Send + Sync>;

/// A thread that drops what it is given.
struct Reaper {
    name: &'static str,
    /// The turn that dropping takes.
    turn: fn() -> Option<Long>,
    sender: OnceLock<Option<mpsc::Sender<Handle>>>,
}

static DEVICES: Reaper = Reaper::new("onetrip-close", || Some(driver_lock::long()));
/// Not the same: what live devices let go of waits for no lost one.
static PARTS: Reaper = Reaper::new("onetrip-drop", || None);

impl Reaper {
    const fn new(name: &'static str, turn: fn() -> Option<Long>) -> Self {
        Self { name, turn, sender: OnceLock::new() }
    }

    /// Drops `handle` on the thread; here, where none can be started.
    fn close(&self, handle: Handle) {
        let sender = self.sender.get_or_init(|| {
            let (sender, lost) = mpsc::channel::<Handle>();
            // It stays, since a driver may hang where a thread that used it ends.
            let thread = thread::Builder::new().name(self.name.into());
            let turn = self.turn;
            thread.spawn(move || close_all(&lost, ExitGuard::of_process(), turn)).ok()?;
            Some(sender)
        });
        if let Some(sender) = sender {
            let _ = sender.send(handle);
        }
    }
}

/// Drops the last handle of a device, or of what is a lost one's, on a thread of its own: that takes long, and with
/// some drivers forever.
pub(crate) fn close<T: Send + Sync + 'static>(device: Arc<T>) {
    DEVICES.close(device);
}

/// Drops `parts` of a device on another thread.
pub(crate) fn release<T: Send + Sync + 'static>(parts: T) {
    PARTS.close(Arc::new(parts));
}

/// Waits until what was [let go](release) of before is dropped, but no longer than `patience`.
pub(crate) fn catch_up(patience: Duration) {
    let (handle, dropped) = mpsc::channel::<()>();
    release(handle);
    let _ = dropped.recv_timeout(patience);
}

/// Drops each of `lost` once nobody else holds it, in its `turn`, until there can come no more.
fn close_all(lost: &mpsc::Receiver<Handle>, gate: &ExitGuard, turn: fn() -> Option<Long>) {
    const SHORTEST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);
    let mut held: Vec<Handle> = Vec::new();
    while let Ok(first) = lost.recv() {
        held.push(first);
        let mut wait = SHORTEST;
        loop {
            let before = held.len();
            let free = held.extract_if(.., |device| Arc::strong_count(device) == 1);
            let free: Vec<_> = free.collect();
            if !free.is_empty() {
                let _turn = turn();
                free.into_iter().for_each(|device| drop_by(gate, device));
            }
            if held.is_empty() {
                break;
            }
            wait = if held.len() < before { SHORTEST } else { LONGEST.min(2 * wait) };
            match lost.recv_timeout(wait) {
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

/// Drops `parts` of a device here, or leaves them to the system while the process ends.
pub(crate) fn drop_here<T>(parts: T) {
    drop_by(ExitGuard::of_process(), parts);
}

/// Drops `device`, or leaves it to the system once the gate is shut.
fn drop_by<T>(gate: &ExitGuard, device: T) {
    let device = ManuallyDrop::new(device);
    // The thread must outlive what a driver does.
    gate.pass(|| _ = caught(|| drop(ManuallyDrop::into_inner(device))));
}

#[cfg(test)]
mod tests {
    use crate::base::sync::Mutex;

    use super::*;

    /// Says when it is dropped.
    struct Dropped(mpsc::Sender<u8>, u8);

    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }

    #[test]
    fn what_came_before_is_dropped_when_the_closer_has_caught_up() {
        let (tell, told) = mpsc::channel();
        for name in 0..100 {
            release(Dropped(tell.clone(), name));
        }
        catch_up(Duration::from_secs(10));
        assert!(told.try_iter().eq(0..100));
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
        let (tell, told) = mpsc::channel();
        release(Dropped(tell, 0));
        catch_up(Duration::from_secs(10));
        assert_eq!(told.try_recv(), Ok(0));
        drop(end);
    }

    #[test]
    fn a_device_that_is_held_keeps_no_other_open() {
        let (closer, lost) = mpsc::channel::<Handle>();
        let (tell, told) = mpsc::channel();
        let closing = thread::spawn(move || close_all(&lost, &ExitGuard::new(), || None));
        let devices = [0, 1, 2].map(|name| Arc::new(Dropped(tell.clone(), name)));
        for device in &devices {
            closer.send(Arc::clone(device) as Handle).unwrap();
        }
        let [held, second, third] = devices;
        drop(third);
        assert_eq!(told.recv(), Ok(2));
        drop(second);
        assert_eq!(told.recv(), Ok(1));
        drop(held);
        assert_eq!(told.recv(), Ok(0));
        drop(closer);
        closing.join().unwrap();
    }
}
