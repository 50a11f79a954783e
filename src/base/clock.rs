//! Time, where the platform has a clock.

use std::time::Duration;

/// Adds up the time between starts and stops. Counts nothing on the web, which has no
/// monotonic clock in `std`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stopwatch {
    total: Duration,
    #[cfg(not(target_arch = "wasm32"))]
    since: Option<std::time::Instant>,
}

impl Stopwatch {
    /// A stopwatch that runs.
    pub fn started() -> Self {
        let mut watch = Self::default();
        watch.start();
        watch
    }

    pub fn start(&mut self) {
        #[cfg(not(target_arch = "wasm32"))]
        {
            self.since = Some(std::time::Instant::now());
        }
    }

    pub fn stop(&mut self) {
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(since) = self.since.take() {
            self.total += since.elapsed();
        }
    }

    /// The time so far, up to now if it runs.
    pub fn total(&self) -> Duration {
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(since) = self.since {
            return self.total + since.elapsed();
        }
        self.total
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
