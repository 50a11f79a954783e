//! Opened devices that nobody uses. They are kept for who opens the same adapter next, which saves a tenth of a
//! second, and since drivers were seen to hang while they closed one of several. What is lost is closed.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use super::adapter::Opened;
use super::fault::{Health, is_dead};

static IDLE: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<Opened>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An idle device that fits and still works, if there is one.
pub(super) fn take(fits: impl Fn(&Opened) -> bool) -> Option<Opened> {
    loop {
        let mut idle = idle();
        let at = idle.iter().position(&fits)?;
        let opened = idle.swap_remove(at);
        drop(idle);
        if !is_dead(&opened.device) {
            return Some(opened);
        }
        close(Arc::new(opened));
    }
}

/// Leaves the device for the next user when it is dropped, unless it is lost.
pub(super) struct Leaving {
    pub opened: Opened,
    pub health: Arc<Health>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // What was dropped before is freed now.
        let _ = self.health.poll(&self.opened.device, wgpu::PollType::Poll);
        if self.health.is_lost() {
            close(Arc::new(self.opened.clone()));
        } else {
            idle().push(self.opened.clone());
        }
    }
}

type Handle = Arc<dyn Any + Send + Sync>;

/// Drops the last handle of a device on a thread of its own: that takes long, and with some drivers forever. Where no
/// thread can be started, the handle is dropped here.
pub(super) fn close<T: Send + Sync + 'static>(device: Arc<T>) {
    static CLOSER: OnceLock<Option<mpsc::Sender<Handle>>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (sender, lost) = mpsc::channel::<Handle>();
        // It stays, since a driver may hang where a thread that used it ends.
        let thread = thread::Builder::new().name("onetrip-close".into());
        thread.spawn(move || close_all(&lost)).is_ok().then_some(sender)
    });
    if let Some(closer) = closer {
        let _ = closer.send(device);
    }
}

/// Drops each of `lost` once nobody else holds it, until there can come no more.
fn close_all(lost: &mpsc::Receiver<Handle>) {
    const SHORTEST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);
    let mut held: Vec<Handle> = Vec::new();
    while let Ok(first) = lost.recv() {
        held.push(first);
        let mut wait = SHORTEST;
        loop {
            let before = held.len();
            held.retain(|device| Arc::strong_count(device) > 1);
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
    fn a_device_that_is_held_keeps_no_other_open() {
        let (closer, lost) = mpsc::channel::<Handle>();
        let (tell, told) = mpsc::channel();
        let closing = thread::spawn(move || close_all(&lost));
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
