//! Who computes on a device, so that probes keep out of the way.

use std::time::{Duration, Instant};

use crate::base::sync::{Condvar, Mutex, MutexGuard};
use crate::calibrate::Pace;

/// Nobody has computed for so long before the first probe.
const QUIET: Duration = Duration::from_millis(50);
/// How long the first probe waits for such a pause.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long each other probe waits for the end of a run.
const SHORT_PATIENCE: Duration = Duration::from_millis(20);

/// Runs of batches on a device.
#[derive(Default)]
pub(crate) struct Activity {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Runs under way.
    running: usize,
    /// Runs ever begun.
    begun: u64,
    /// Who waits for a change.
    waiting: usize,
    /// Whether nobody wants the figures any more.
    closed: bool,
}

/// A run under way, until it is dropped.
pub(crate) struct Busy<'a> {
    activity: &'a Activity,
    /// Runs ever begun, this one included.
    begun: u64,
    /// Whether others were under way when it began.
    joined: bool,
}

impl<'a> Busy<'a> {
    pub(super) fn new(activity: &'a Activity) -> Self {
        let mut state = activity.state();
        state.running += 1;
        state.begun += 1;
        let (begun, joined) = (state.begun, state.running > 1);
        drop(state);
        Self { activity, begun, joined }
    }

    /// Whether nobody else computed meanwhile.
    pub fn is_alone(&self) -> bool {
        !self.joined && self.activity.state().begun == self.begun
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        state.running -= 1;
        // A call of the kernel, even where nobody waits.
        if state.waiting > 0 {
            self.activity.changed.notify_all();
        }
    }
}

impl Activity {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Runs under way.
    pub fn running(&self) -> usize {
        self.state().running
    }

    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Waits at most `time`, as long as `go_on` says so.
    fn wait_while(
        &self,
        time: Duration,
        go_on: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.waiting += 1;
        let waiting = self.changed.wait_timeout_while(state, time, go_on);
        let (mut state, _) = waiting;
        state.waiting -= 1;
        state
    }

    /// Waits for a pause, but not for long. `false` if nobody wants the figures any more.
    pub fn wait_for_pause(&self) -> bool {
        let start = Instant::now();
        let mut begun = self.state().begun;
        loop {
            let until = |state: &mut State| !state.closed;
            let state = self.wait_while(QUIET, until);
            let quiet = state.running == 0 && state.begun == begun;
            if state.closed || quiet || start.elapsed() > PATIENCE {
                return !state.closed;
            }
            begun = state.begun;
        }
    }
}

impl Pace for Activity {
    fn may_go_on(&self) -> bool {
        let busy = |state: &mut State| state.running > 0 && !state.closed;
        !self.wait_while(SHORT_PATIENCE, busy).closed
    }

    fn others(&self) -> u64 {
        self.state().begun
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn who_waits_for_the_end_of_a_run_hears_of_it() {
        let activity = Arc::new(Activity::default());
        let busy = Busy::new(&activity);
        let (waiter, start) = (Arc::clone(&activity), Instant::now());
        let long = Duration::from_secs(600);
        let waiting = std::thread::spawn(move || {
            drop(waiter.wait_while(long, |state| state.running > 0));
        });
        while activity.state().waiting == 0 {
            std::thread::yield_now();
        }
        drop(busy);
        waiting.join().unwrap();
        assert!(start.elapsed() < long);
        assert_eq!(activity.state().waiting, 0);
    }

    #[test]
    fn runs_are_counted_while_they_last() {
        let activity = Arc::new(Activity::default());
        assert!(activity.may_go_on());
        let busy = Busy::new(&activity);
        assert_eq!((activity.others(), activity.state().running), (1, 1));
        drop(busy);
        assert_eq!((activity.others(), activity.state().running), (1, 0));
        assert!(activity.wait_for_pause());
        activity.close();
        assert!(!activity.may_go_on() && !activity.wait_for_pause());
    }
}
