//! The groups of probes, and the time that each of them has.

use crate::base::clock::Stopwatch;
use crate::cost::Backend;

/// Seconds that are spent on all probes. A probe that has begun is finished.
pub(super) const BUDGET: f64 = 0.38;

/// The progress of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The side that is being measured.
    pub side: Backend,
    /// The figures that are being measured.
    pub what: &'static str,
    /// Groups of probes that are done.
    pub done: usize,
    /// Groups of probes in all.
    pub of: usize,
}

/// Counts groups of probes, and shares out the time.
pub(super) struct ProbeGroups<'a> {
    progress: &'a mut (dyn FnMut(Progress) + Send),
    started: Stopwatch,
    /// Seconds that compilers took.
    compiling: f64,
    done: usize,
    of: usize,
    shares: f64,
}

impl<'a> ProbeGroups<'a> {
    /// `of` groups, which take `shares` equal shares of the time.
    pub fn new(progress: &'a mut (dyn FnMut(Progress) + Send), of: usize, shares: f64) -> Self {
        Self { progress, started: Stopwatch::started(), compiling: 0.0, done: 0, of, shares }
    }

    /// As [`new`](Self::new), with a clock that stands still, so that time never runs out.
    #[cfg(test)]
    pub fn without_time(progress: &'a mut (dyn FnMut(Progress) + Send)) -> Self {
        Self { started: Stopwatch::default(), ..Self::new(progress, 0, 1.0) }
    }

    /// Begins a group that gets `shares` of the time that is left. Returns its deadline.
    pub fn next(&mut self, side: Backend, what: &'static str, shares: f64) -> Deadline {
        (self.progress)(Progress { side, what, done: self.done, of: self.of });
        self.done += 1;
        let now = self.now();
        let until = now + (BUDGET - now).max(0.0) * shares / self.shares.max(shares);
        self.shares -= shares;
        Deadline { clock: self.started, until: until + self.compiling, once: false }
    }

    /// Seconds so far, without those of compilers.
    fn now(&self) -> f64 {
        self.started.total().as_secs_f64() - self.compiling
    }

    /// Excludes the time since `start`, which compilers took.
    pub fn compiled(&mut self, start: Stopwatch) {
        self.compiling += start.total().as_secs_f64();
    }
}

/// A time after which no probe of a group begins, nor is repeated.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    clock: Stopwatch,
    until: f64,
    /// True if a probe begins even if the time has passed.
    once: bool,
}

impl Deadline {
    /// The deadline of a probe that begins in any case.
    pub fn at_least_once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Returns whether a probe may begin.
    pub fn may_begin(&self) -> bool {
        self.once || self.left() >= 0.0
    }

    /// Seconds that are left; negative once the deadline has passed.
    pub fn left(&self) -> f64 {
        self.until - self.clock.total().as_secs_f64()
    }
}
