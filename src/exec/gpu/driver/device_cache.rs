//! OpenedDevice devices that nobody uses, kept for the next user of the same adapter.
//!
//! Quirk: a driver hung while it closed one of several devices (seen on 2026-11-21, the driver was not recorded). Opening
//! takes a tenth of a second besides. So a device is closed only once it is lost. No test covers the hang.

use std::sync::Arc;

use super::opened_device::OpenedDevice;
use super::reaper::close;
use crate::base::sync::Mutex;

static UNUSED: Mutex<Vec<OpenedDevice>> = Mutex::new(Vec::new());

/// An unused device that fits and still works, if there is one.
pub(super) fn take(fits: impl Fn(&OpenedDevice) -> bool) -> Option<OpenedDevice> {
    loop {
        let mut unused = UNUSED.lock();
        let at = unused.iter().position(&fits)?;
        let opened = unused.swap_remove(at);
        drop(unused);
        if !opened.health.is_lost() && !opened.is_silently_lost() {
            return Some(opened);
        }
        close(Arc::new(opened));
    }
}

/// Keeps a device that its last user has dropped, or has it closed if it is lost.
pub(super) fn keep(opened: OpenedDevice) {
    // Memory dropped before is freed now.
    let _ = opened.poll(wgpu::PollType::Poll);
    if opened.health.is_lost() {
        close(Arc::new(opened));
    } else {
        UNUSED.lock().push(opened);
    }
}
