//! Tracks the runs of a device, so that calibration probes do not overlap them.

use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::sync::{Condvar, Mutex, MutexGuard};
use crate::calibrate::Pace;

/// The pause before the first probe.
const QUIET: Duration = Duration::from_millis(50);
/// The longest wait for such a pause.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest wait of each other probe for the end of a run.
const SHORT_PATIENCE: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(crate) struct BusyTracker {
    state: Mutex<BusyState>,
    changed: Condvar,
}

#[derive(Default)]
struct BusyState {
    running: usize,
    begun: u64,
    waiting: usize,
    /// True if the device was dropped.
    closed: bool,
}

/// A run under way. Its drop ends it.
pub(crate) struct Busy<'a> {
    busy_tracker: &'a BusyTracker,
    /// Runs ever begun, this one included.
    begun: u64,
    /// True if others were under way when it began.
    joined: bool,
}

impl<'a> Busy<'a> {
    pub(in crate::device) fn new(busy_tracker: &'a BusyTracker) -> Self {
        let mut state = busy_tracker.state.lock();
        state.running += 1;
        state.begun += 1;
        let (begun, joined) = (state.begun, state.running > 1);
        drop(state);
        Self { busy_tracker, begun, joined }
    }

    /// Returns whether no other run was under way at any time of this one.
    pub fn is_alone(&self) -> bool {
        !self.joined && self.busy_tracker.state.lock().begun == self.begun
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.busy_tracker.state.lock();
        state.running -= 1;
        // To notify costs a system call even if nobody waits.
        if state.waiting > 0 {
            self.busy_tracker.changed.notify_all();
        }
    }
}

impl BusyTracker {
    /// Runs under way.
    pub fn running(&self) -> usize {
        self.state.lock().running
    }

    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits at most `time`, as long as `condition` holds.
    fn wait_while(
        &self,
        time: Duration,
        condition: impl FnMut(&mut BusyState) -> bool,
    ) -> MutexGuard<'_, BusyState> {
        let mut state = self.state.lock();
        state.waiting += 1;
        let waiting = self.changed.wait_timeout_while(state, time, condition);
        let (mut state, _) = waiting;
        state.waiting -= 1;
        state
    }

    /// Waits for a pause, but not for long. `false` once the device is dropped.
    pub fn wait_for_pause(&self) -> bool {
        let start = Instant::now();
        let mut begun = self.state.lock().begun;
        loop {
            let until = |state: &mut BusyState| !state.closed;
            let state = self.wait_while(QUIET, until);
            let quiet = state.running == 0 && state.begun == begun;
            if state.closed || quiet || start.elapsed() > PATIENCE {
                return !state.closed;
            }
            begun = state.begun;
        }
    }
}

impl Pace for BusyTracker {
    fn may_go_on(&self) -> bool {
        let busy = |state: &mut BusyState| state.running > 0 && !state.closed;
        !self.wait_while(SHORT_PATIENCE, busy).closed
    }

    fn others(&self) -> u64 {
        self.state.lock().begun
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn who_waits_for_the_end_of_a_run_hears_of_it() {
        let busy_tracker = Arc::new(BusyTracker::default());
        let busy = Busy::new(&busy_tracker);
        let (waiter, start) = (Arc::clone(&busy_tracker), Instant::now());
        let long = Duration::from_secs(600);
        let waiting = std::thread::spawn(move || {
            drop(waiter.wait_while(long, |state| state.running > 0));
        });
        while busy_tracker.state.lock().waiting == 0 {
            std::thread::yield_now();
        }
        drop(busy);
        waiting.join().unwrap();
        assert!(start.elapsed() < long);
        assert_eq!(busy_tracker.state.lock().waiting, 0);
    }

    #[test]
    fn runs_are_counted_while_they_last() {
        let busy_tracker = Arc::new(BusyTracker::default());
        assert!(busy_tracker.may_go_on());
        let busy = Busy::new(&busy_tracker);
        assert_eq!((busy_tracker.others(), busy_tracker.state.lock().running), (1, 1));
        drop(busy);
        assert_eq!((busy_tracker.others(), busy_tracker.state.lock().running), (1, 0));
        assert!(busy_tracker.wait_for_pause());
        busy_tracker.close();
        assert!(!busy_tracker.may_go_on() && !busy_tracker.wait_for_pause());
    }
}
