//! Counters of events, in little memory however long the run takes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onetrip::Device;

/// Counts of a soak.
#[derive(Default)]
pub struct Tally {
    pub runs: Count,
    pub wrong: Count,
    pub errors: Count,
    pub cancelled: Count,
    pub times: Times,
}

/// A number that many tasks raise.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Classes of times to an octave.
const CLASSES: f64 = 16.0;

/// The numbers of runs by their time, in classes that are 4 % wide.
pub struct Times(Vec<Count>);

impl Default for Times {
    fn default() -> Self {
        Self((0..1024).map(|_| Count::default()).collect())
    }
}

impl Times {
    pub fn add(&self, time: Duration) {
        let class = (time.as_nanos().max(1) as f64).log2() * CLASSES;
        self.0[(class as usize).min(self.0.len() - 1)].add();
    }

    /// The milliseconds that this part of the runs took at most.
    fn quantile(&self, part: f64) -> f64 {
        let counts: Vec<u64> = self.0.iter().map(Count::get).collect();
        let wanted = counts.iter().sum::<u64>() as f64 * part;
        let mut sum = 0.0;
        let class = counts.iter().position(|&count| {
            sum += count as f64;
            sum >= wanted
        });
        ((class.unwrap_or(0) + 1) as f64 / CLASSES).exp2() / 1e6
    }
}

impl Tally {
    /// Fails if a result was wrong, or a run ended with an error that was not asked for.
    pub fn verdict(&self) -> Result<(), Box<dyn std::error::Error>> {
        match (self.wrong.get(), self.errors.get()) {
            (0, 0) => Ok(()),
            (wrong, errors) => Err(format!("{wrong} results wrong, {errors} errors").into()),
        }
    }

    /// The closing line.
    pub fn report(&self, device: &Device, heartbeat: Duration, leaked: u64) -> String {
        let stats = device.pool_stats();
        let peak = (stats.gpu.peak_bytes + stats.host.peak_bytes) as f64 / f64::from(1 << 20);
        format!(
            "soak: {} runs, {} wrong, {} errors, {} cancelled, {} losses recovered, \
             p50 {:.3} p99 {:.3} ms, heartbeat max {:.1} ms, peak {peak:.1} MiB, leaked {leaked}",
            self.runs.get(),
            self.wrong.get(),
            self.errors.get(),
            self.cancelled.get(),
            stats.losses,
            self.times.quantile(0.5),
            self.times.quantile(0.99),
            heartbeat.as_secs_f64() * 1e3,
        )
    }
}
