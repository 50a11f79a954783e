//! Time. A browser has its own clock, whose steps may be a tenth of a millisecond.

use std::time::Duration;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use std::time::Instant;
#[cfg(target_arch = "wasm32")]
pub(crate) use web_time::Instant;

/// Adds up the time between starts and stops.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stopwatch {
    total: Duration,
    since: Option<Instant>,
}

impl Stopwatch {
    /// A stopwatch that runs.
    pub fn started() -> Self {
        let mut watch = Self::default();
        watch.start();
        watch
    }

    pub fn start(&mut self) {
        self.since = Some(Instant::now());
    }

    pub fn stop(&mut self) {
        if let Some(since) = self.since.take() {
            self.total += since.elapsed();
        }
    }

    /// The time so far, up to now if it runs.
    pub fn total(&self) -> Duration {
        if let Some(since) = self.since {
            return self.total + since.elapsed();
        }
        self.total
    }
}

/// The step of the clock in seconds: the shortest of a few. It is 0 for a clock that seems to stand still.
pub(crate) fn step() -> f64 {
    /// Looks at the clock in which it must change: some milliseconds in a browser.
    const LOOKS: usize = 50_000;
    let next = |since: Instant| {
        let looks = std::iter::repeat_with(|| since.elapsed()).take(LOOKS);
        looks.into_iter().find(|time| !time.is_zero()).map_or(0.0, |time| time.as_secs_f64())
    };
    // The clock is read first just after a change, so that whole steps are seen.
    next(Instant::now());
    (0..3).map(|_| next(Instant::now())).fold(f64::INFINITY, f64::min)
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
