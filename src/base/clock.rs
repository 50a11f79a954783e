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

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
