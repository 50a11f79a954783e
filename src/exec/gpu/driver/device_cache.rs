//! Opened devices that nobody uses. They are kept for who opens the same adapter next, which saves a tenth of a
//! second, and since drivers were seen to hang while they closed one of several. What is lost is closed.

use std::sync::Arc;

use super::adapter::Opened;
use crate::base::sync::{Mutex, MutexGuard};
use crate::exec::gpu::driver::health::is_dead;
use crate::exec::gpu::driver::reaper::close;

static IDLE: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<Opened>> {
    IDLE.lock()
}

/// An idle device that fits and still works, if there is one.
pub(crate) fn take(fits: impl Fn(&Opened) -> bool) -> Option<Opened> {
    loop {
        let mut idle = idle();
        let at = idle.iter().position(&fits)?;
        let opened = idle.swap_remove(at);
        drop(idle);
        if !opened.health.is_lost() && !is_dead(&opened.device) {
            return Some(opened);
        }
        close(Arc::new(opened));
    }
}

/// Leaves the device for the next user when it is dropped, unless it is lost.
pub(crate) struct Leaving {
    /// `None` only while dropping.
    opened: Option<Opened>,
}

impl Leaving {
    pub fn new(opened: Opened) -> Self {
        Self { opened: Some(opened) }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let Some(opened) = self.opened.take() else { return };
        // What was dropped before is freed now.
        let _ = opened.health.poll(&opened.device, wgpu::PollType::Poll);
        if opened.health.is_lost() {
            close(Arc::new(opened));
        } else {
            idle().push(opened);
        }
    }
}
