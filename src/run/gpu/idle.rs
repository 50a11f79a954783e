//! Opened devices that nobody uses. They are kept for who opens the same adapter next, which saves a tenth of a
//! second, and since drivers were seen to hang while they closed one of several. What is lost is closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::adapter::Opened;
use super::closer::close;
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
