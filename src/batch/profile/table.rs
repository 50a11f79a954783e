//! A profile as people read it.

use std::fmt;
use std::time::Duration;

use super::{KernelProfile, Profile};
use crate::base::units::{self, bytes, count, seconds};

/// Arithmetic operations a byte from which a kernel is told by them.
const INTENSE: u64 = 8;

const HEAD: [&str; 7] = ["kernel", "form", "time", "predicted", "bytes", "rate", "share"];
/// Columns that start at the left.
const NAMES: usize = 2;

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.kernel_time().map_or_else(|| "not known".into(), short);
        writeln!(
            f,
            "profile on {} ({}): {}, {time} in kernels; run {} (predicted {})",
            self.device,
            self.backend,
            count(self.kernels.len() as u64, "kernel"),
            short(self.stats.run_time),
            short(self.stats.predicted_time),
        )?;
        let whole: Duration = self.kernels.iter().filter_map(|kernel| kernel.time).sum();
        let mut rows = vec![HEAD.map(str::to_owned)];
        rows.extend(self.kernels.iter().map(|kernel| row(kernel, whole)));
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        for row in &rows {
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match at < NAMES {
                    true => write!(f, "  {cell:<width$}")?,
                    false => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        let stage = |stage: &super::StageProfile| {
            let side = if stage.on_gpu { "gpu " } else { "" };
            format!("{side}{} {}", stage.stage, short(stage.time))
        };
        write!(f, "  {}", self.stages.iter().map(stage).collect::<Vec<_>>().join(", "))
    }
}

fn row(kernel: &KernelProfile, whole: Duration) -> [String; HEAD.len()] {
    let unknown = || "-".to_owned();
    let share = |time: Duration| match whole.is_zero() {
        true => unknown(),
        false => format!("{:.1} %", 100.0 * time.as_secs_f64() / whole.as_secs_f64()),
    };
    [
        kernel.kernel.clone(),
        kernel.form.to_owned(),
        kernel.time.map_or_else(unknown, short),
        short(kernel.predicted),
        bytes(kernel.bytes),
        kernel.time.and_then(|time| rate(kernel, time)).unwrap_or_else(unknown),
        kernel.time.map_or_else(unknown, share),
    ]
}

/// What the kernel computed or moved in a second, whichever it does more of.
fn rate(kernel: &KernelProfile, time: Duration) -> Option<String> {
    let (n, unit) = match kernel.flops >= INTENSE.saturating_mul(kernel.bytes) {
        true => (kernel.flops, "FLOP"),
        false => (kernel.bytes, "B"),
    };
    (!time.is_zero()).then(|| units::rate(n as f64 / time.as_secs_f64(), unit))
}

fn short(time: Duration) -> String {
    seconds(time.as_secs_f64())
}
