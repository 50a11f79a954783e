//! Two things measured in turn, so that both see the same machine.

use std::error::Error;
use std::time::{Duration, Instant};

use onetrip::{Device, GpuCommandBatch, Result, Tensor};

use crate::timing::milliseconds;

/// Passes of each after the first, and no more once the time is spent.
const LEAST: usize = 5;
const MOST: usize = 50_000;
const TIME: Duration = Duration::from_millis(700);

/// The least work of a case.
pub enum Work {
    /// Arithmetic operations.
    Flops(f64),
    /// Bytes read and written.
    Bytes(f64),
}

impl Work {
    fn rate(&self, time: Duration) -> String {
        match self {
            Self::Flops(flops) => format!("{:.1} GFLOP/s", flops / time.as_secs_f64() / 1e9),
            Self::Bytes(bytes) => format!("{:.1} GB/s", bytes / time.as_secs_f64() / 1e9),
        }
    }
}

/// The CPU, and which cases to run.
pub struct Bench {
    pub device: Device,
    filter: String,
}

impl Bench {
    /// A bench of the cases whose names contain `filter`.
    pub fn new(filter: String) -> Self {
        Self { device: Device::cpu(), filter }
    }

    /// Returns true if a case was asked for.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Measures a graph over residents in turn with `beside`, and returns the result. As by hand, the memory of the
    /// last result is that of the next.
    pub async fn pair(
        &self,
        name: &str,
        work: &Work,
        other: &str,
        beside: impl FnMut(),
        record: impl Fn(&GpuCommandBatch) -> Tensor<'_, f32>,
    ) -> Result<Vec<f32>, Box<dyn Error>> {
        let mut recorded = None;
        let pass = async || {
            let (batch, _) = recorded.get_or_insert_with(|| {
                let batch = GpuCommandBatch::new(&self.device);
                let result = record(&batch).download().id();
                (batch, result)
            });
            batch.execute().await
        };
        self.passes(name, work, pass, other, beside).await?;
        let (batch, result) = recorded.ok_or("nothing was recorded")?;
        Ok(batch.read(result).await?)
    }

    /// Measures `pass` in turn with `beside`, prints both, and returns the last result of `pass`.
    pub async fn passes<R>(
        &self,
        name: &str,
        work: &Work,
        mut pass: impl AsyncFnMut() -> Result<R>,
        other: &str,
        mut beside: impl FnMut(),
    ) -> Result<R, Box<dyn Error>> {
        let start = Instant::now();
        let mut result = pass().await?;
        let first = start.elapsed();
        beside();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let start = Instant::now();
        while ours.len() < LEAST || (ours.len() < MOST && start.elapsed() < TIME) {
            let begin = Instant::now();
            result = pass().await?;
            ours.push(begin.elapsed());
            let begin = Instant::now();
            beside();
            theirs.push(begin.elapsed());
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "kernel {name} {} {} {}",
            milliseconds(ours),
            work.rate(ours),
            milliseconds(first)
        );
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!("  beside {other} {} {} {ratio:.2}", milliseconds(theirs), work.rate(theirs));
        Ok(result)
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
