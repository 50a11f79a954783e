//! The measurement of a device in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::busy_tracker::BusyTracker;
use crate::base::sync::Mutex;

/// A measurement that is wanted, or under way on a thread.
pub(in crate::device) struct Background {
    wanted: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    busy_tracker: Arc<BusyTracker>,
}

impl Background {
    pub fn new(wanted: bool, busy_tracker: Arc<BusyTracker>) -> Self {
        Self { wanted: AtomicBool::new(wanted), thread: Mutex::default(), busy_tracker }
    }

    /// Starts no measurement from now on.
    pub fn withdraw(&self) {
        self.wanted.store(false, Ordering::Relaxed);
    }

    /// Has a thread do the work that `measurement` returns, if it is wanted and was not started yet.
    pub fn start<W: FnOnce() + Send + 'static>(&self, measurement: impl FnOnce() -> W) {
        if !self.wanted.load(Ordering::Relaxed) || !self.wanted.swap(false, Ordering::Relaxed) {
            return;
        }
        let thread = thread::Builder::new().name("onetrip-calibrate".into());
        // Without a thread the typical figures stay.
        if let Ok(thread) = thread.spawn(measurement()) {
            *self.thread.lock() = Some(thread);
        }
    }
}

impl Drop for Background {
    /// Joins the thread: none may use a driver that the process is about to unload.
    fn drop(&mut self) {
        self.busy_tracker.close();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
