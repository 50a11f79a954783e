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

/// Drops the last handle of a device on a thread of its own: that takes long, and with some drivers forever. Where no
/// thread can be started, the handle is dropped here.
pub(super) fn close<T: Send + Sync + 'static>(device: Arc<T>) {
    type Handle = Arc<dyn Any + Send + Sync>;
    static CLOSER: OnceLock<Option<mpsc::Sender<Handle>>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (sender, lost) = mpsc::channel::<Handle>();
        let close_all = move || {
            for device in lost {
                while Arc::strong_count(&device) > 1 {
                    thread::sleep(Duration::from_millis(10));
                }
            }
        };
        // It stays, since a driver may hang where a thread that used it ends.
        let thread = thread::Builder::new().name("onetrip-close".into());
        thread.spawn(close_all).is_ok().then_some(sender)
    });
    if let Some(closer) = closer {
        let _ = closer.send(device);
    }
}
