//! Closing devices on a thread of its own, and not while the process ends.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use super::gate::Gate;
use crate::caught::caught;

type Handle = Arc<dyn Any + Send + Sync>;

/// Drops the last handle of a device, or of what is a lost one's, on a thread of its own: that takes long, and with
/// some drivers forever. Where no thread can be started, the handle is dropped here.
pub(super) fn close<T: Send + Sync + 'static>(device: Arc<T>) {
    static CLOSER: OnceLock<Option<mpsc::Sender<Handle>>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (sender, lost) = mpsc::channel::<Handle>();
        // It stays, since a driver may hang where a thread that used it ends.
        let thread = thread::Builder::new().name("onetrip-close".into());
        thread.spawn(move || close_all(&lost, Gate::of_process())).ok()?;
        Some(sender)
    });
    if let Some(closer) = closer {
        let _ = closer.send(device);
    }
}

/// Waits until what was to be dropped before is, as far as nobody else holds it, but no longer than `patience`.
pub(super) fn catch_up(patience: Duration) {
    let (handle, dropped) = mpsc::channel::<()>();
    close(Arc::new(handle));
    let _ = dropped.recv_timeout(patience);
}

/// Drops each of `lost` once nobody else holds it, until there can come no more.
fn close_all(lost: &mpsc::Receiver<Handle>, gate: &Gate) {
    const SHORTEST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);
    let mut held: Vec<Handle> = Vec::new();
    while let Ok(first) = lost.recv() {
        held.push(first);
        let mut wait = SHORTEST;
        loop {
            let before = held.len();
            held.extract_if(.., |device| Arc::strong_count(device) == 1)
                .for_each(|device| drop_by(gate, device));
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

/// Drops `device`, or leaves it to the system once the gate is shut.
fn drop_by<T>(gate: &Gate, device: T) {
    let device = ManuallyDrop::new(device);
    // The thread must outlive what a driver does.
    gate.pass(|| _ = caught(|| drop(ManuallyDrop::into_inner(device))));
}

#[cfg(test)]
mod tests {
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
            close(Arc::new(Dropped(tell.clone(), name)));
        }
        catch_up(Duration::from_secs(10));
        assert!(told.try_iter().eq(0..100));
    }

    #[test]
    fn a_device_that_is_held_keeps_no_other_open() {
        let (closer, lost) = mpsc::channel::<Handle>();
        let (tell, told) = mpsc::channel();
        let closing = thread::spawn(move || close_all(&lost, &Gate::new()));
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
