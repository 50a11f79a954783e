//! Medians of wall-clock times.

use std::time::{Duration, Instant};

/// The length of one measurement.
#[derive(Clone, Copy)]
pub struct Budget {
    /// At least so often, after one pass that is not counted.
    pub least: usize,
    /// At most so often.
    pub most: usize,
    /// Not again once this much time is spent.
    pub time: Duration,
}

/// The median time of `pass`.
pub async fn median<E>(
    budget: Budget,
    mut pass: impl AsyncFnMut() -> Result<(), E>,
) -> Result<Duration, E> {
    pass().await?;
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < budget.least || (times.len() < budget.most && start.elapsed() < budget.time)
    {
        let pass_start = Instant::now();
        pass().await?;
        times.push(pass_start.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// A time in milliseconds with three significant digits.
pub fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    let digits = if ms >= 100.0 {
        0
    } else if ms >= 10.0 {
        1
    } else if ms >= 1.0 {
        2
    } else {
        3
    };
    format!("{ms:.digits$}")
}
