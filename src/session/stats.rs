//! Counters of one run, and their report to the device's metrics and to `tracing`.

use std::fmt;
use std::time::Duration;

use crate::base::trace::event;
use crate::base::units::{bytes, count, seconds};
use crate::cost::Backend;
use crate::device::{Counter, Device};
use crate::error::Error;

/// The counters of one run.
///
/// ```
/// # pollster::block_on(async {
/// # use onetrip::{Device, GpuCommandBatch};
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// (batch.upload(&[1.0_f32, -2.0]) * 2.0).relu();
/// batch.execute().await?;
/// let stats = batch.stats();
/// assert_eq!((stats.submits, stats.downloads, stats.dispatches), (1, 1, 1)); // One kernel: mul+relu.
/// println!("{stats}");
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RunStats {
    /// The side of the run; `None` before the first run. It is the GPU if any of it ran there.
    pub backend: Option<Backend>,
    /// Trips of data to the device: 1, or 0 with nothing to bring. The parameters of the kernels travel with the first
    /// run of a batch. Large uploads may go in up to 8 waves, so that a GPU works on one part while the host packs the
    /// next.
    pub uploads: u64,
    /// Command buffers submitted, one for each wave (on the CPU: runs of the plan), with those that
    /// [replace](crate::GpuCommandBatch::update) parts of residents. Copies of residents between
    /// the sides, as for [`keep_host_copy`](crate::Resident::keep_host_copy), are not counted here or below;
    /// [`Device::metrics`](crate::Device::metrics) counts them.
    pub submits: u64,
    /// Submits that the run shared with other runs: each such submit counts for each of them. Small runs share a submit
    /// if they come while a GPU is busy.
    pub shared_submits: u64,
    /// Trips of results back: 1, or 0 with nothing to fetch.
    pub downloads: u64,
    /// Kernels launched.
    pub dispatches: u64,
    /// Kernels that ran on the host's cores: some of them if the run was split over both sides.
    pub dispatches_on_cpu: u64,
    /// Bytes brought to the device, parameters included.
    pub bytes_up: u64,
    /// Bytes brought back.
    pub bytes_down: u64,
    /// Device memory that the run held at once: intermediates, results and residents.
    pub peak_bytes: u64,
    /// 1 where the plan was found among those that the device made before, for a batch of equal structure.
    pub plan_hits: u64,
    /// Pipelines compiled for this run; those found on disk take less time, and count too.
    pub pipelines_compiled: u64,
    /// Pipelines found compiled.
    pub pipeline_hits: u64,
    /// Buffers taken from the pool.
    pub pool_hits: u64,
    /// Buffers allocated.
    pub pool_misses: u64,
    /// The number of times that the run was repeated because the GPU was [lost](crate::Recovery).
    pub recoveries: u64,
    /// Recording since the batch was made.
    pub record_time: Duration,
    /// Planning, or nothing if the plan was made before.
    pub plan_time: Duration,
    /// Writing and compiling kernels, or nothing if that was done before.
    pub compile_time: Duration,
    /// Waiting for other runs to make room in the device's [memory budget](crate::DeviceBuilder::memory_budget).
    pub wait_time: Duration,
    /// From the first copy to the last result, without compilation.
    pub run_time: Duration,
    /// The run time that the planner predicted.
    pub predicted_time: Duration,
}

impl RunStats {
    /// Adds the counts of one piece of a run whose pieces run in one trip. Moves between pieces on the host are no
    /// trips.
    pub(super) fn add(&mut self, piece: &Self) {
        self.dispatches += piece.dispatches;
        self.dispatches_on_cpu += piece.dispatches_on_cpu;
        self.pipelines_compiled += piece.pipelines_compiled;
        self.pipeline_hits += piece.pipeline_hits;
        self.pool_hits += piece.pool_hits;
        self.pool_misses += piece.pool_misses;
        self.compile_time += piece.compile_time;
        if piece.backend == Some(Backend::Gpu) {
            self.uploads += piece.uploads;
            self.submits += piece.submits;
            self.shared_submits += piece.shared_submits;
            self.downloads += piece.downloads;
            self.bytes_up += piece.bytes_up;
            self.bytes_down += piece.bytes_down;
        }
    }
}

impl RunStats {
    /// Adds the counters of one trip of a run that takes several, one after another.
    pub(crate) fn add_trip(&mut self, trip: &Self) {
        let on_gpu = [self.backend, trip.backend].contains(&Some(Backend::Gpu));
        self.backend = if on_gpu { Some(Backend::Gpu) } else { self.backend.or(trip.backend) };
        macro_rules! sum {
            ($($field:ident),*) => { $(self.$field += trip.$field;)* };
        }
        sum!(
            uploads,
            submits,
            shared_submits,
            downloads,
            dispatches,
            dispatches_on_cpu,
            bytes_up,
            bytes_down
        );
        sum!(plan_hits, pipelines_compiled, pipeline_hits, pool_hits, pool_misses, recoveries);
        sum!(record_time, plan_time, compile_time, wait_time, run_time, predicted_time);
        self.peak_bytes = self.peak_bytes.max(trip.peak_bytes);
    }
}

impl fmt::Display for RunStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backend {
            Some(Backend::Gpu) if self.dispatches_on_cpu > 0 => f.write_str("gpu and cpu: ")?,
            Some(backend) => write!(f, "{backend}: ")?,
            None => return f.write_str("not run yet"),
        }
        write!(
            f,
            "{} ({}), {}, {}, {} ({}), peak {}; record {}",
            count(self.uploads, "upload"),
            bytes(self.bytes_up),
            count(self.submits, "submit"),
            count(self.dispatches, "dispatch"),
            count(self.downloads, "download"),
            bytes(self.bytes_down),
            bytes(self.peak_bytes),
            seconds(self.record_time.as_secs_f64()),
        )?;
        if !self.plan_time.is_zero() {
            write!(f, ", plan {}", seconds(self.plan_time.as_secs_f64()))?;
        }
        if self.pipelines_compiled + self.pipeline_hits > 0 {
            let (new, cached) = (self.pipelines_compiled, self.pipeline_hits);
            let time = seconds(self.compile_time.as_secs_f64());
            write!(f, ", compile {time} ({new} made or from disk, {cached} in memory)")?;
        }
        let [run, predicted] = [self.run_time, self.predicted_time].map(|t| t.as_secs_f64());
        write!(f, ", run {} (predicted {})", seconds(run), seconds(predicted))
    }
}

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
