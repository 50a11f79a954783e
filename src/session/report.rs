//! Counters and events of a run.

use super::RunStats;
use crate::base::trace::event;
use crate::cost::Backend;
use crate::device::{Counter, Device};
use crate::error::Error;

/// Counts an attempt at a run in the device's metrics, and tells `tracing` of it.
pub(super) fn report(device: &Device, stats: &RunStats, failed: Option<&Error>) {
    let counters = device.counters();
    counters.add(Counter::SharedSubmits, stats.shared_submits);
    counters.add(Counter::Kernels, stats.dispatches);
    counters.add(Counter::BytesUp, stats.bytes_up);
    counters.add(Counter::BytesDown, stats.bytes_down);
    counters.spend(Counter::WaitNanos, stats.wait_time);
    counters.spend(Counter::RunNanos, stats.run_time);
    if failed.is_none() {
        let on_gpu = stats.backend == Some(Backend::Gpu);
        counters.add(if on_gpu { Counter::GpuRuns } else { Counter::CpuRuns }, 1);
        counters.spend(Counter::PredictedNanos, stats.predicted_time);
    }
    match failed {
        None => event!(
            DEBUG,
            "ran",
            backend = stats.backend.map(|side| side.to_string()),
            kernels = stats.dispatches,
            bytes_up = stats.bytes_up,
            bytes_down = stats.bytes_down,
            seconds = stats.run_time.as_secs_f64(),
            predicted_seconds = stats.predicted_time.as_secs_f64(),
        ),
        Some(error) => event!(WARN, "run failed", error = error.to_string()),
    }
}
