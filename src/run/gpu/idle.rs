//! Opened devices that nobody uses. They are kept for who opens the same adapter next, which saves a tenth of a
//! second, and since drivers were seen to hang while they closed one of several. What is lost is closed.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;

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
        close(opened);
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
            close(self.opened.clone());
        } else {
            idle().push(self.opened.clone());
        }
    }
}

/// Closes a device on a thread of its own, which takes long, and with some drivers forever. Where no thread can be
/// started, it is closed here.
fn close(opened: Opened) {
    static CLOSER: OnceLock<Option<mpsc::Sender<Opened>>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (sender, lost) = mpsc::channel::<Opened>();
        // It stays, since a driver may hang where a thread that used it ends.
        let close_all = move || lost.into_iter().for_each(drop);
        let thread = thread::Builder::new().name("onetrip-close".into());
        thread.spawn(close_all).is_ok().then_some(sender)
    });
    if let Some(closer) = closer {
        let _ = closer.send(opened);
    }
}
