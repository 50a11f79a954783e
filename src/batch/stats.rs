//! What a run really did.

use std::fmt;
use std::time::Duration;

use crate::cost::Backend;

/// What one run did, counted as it happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunStats {
    /// Where it ran; `None` before the first run.
    pub backend: Option<Backend>,
    /// Trips of data to the device: 1, or 0 with nothing to bring.
    pub uploads: u64,
    /// Command buffers submitted (on the CPU: runs of the plan).
    pub submits: u64,
    /// Trips of results back: 1, or 0 with nothing to fetch.
    pub downloads: u64,
    /// Kernels launched.
    pub dispatches: u64,
    /// Bytes brought to the device, parameters included.
    pub bytes_up: u64,
    /// Bytes brought back.
    pub bytes_down: u64,
    /// Device memory that the run held at once: intermediates, results and residents.
    pub peak_bytes: u64,
    /// Pipelines compiled for this run.
    pub pipelines_compiled: u64,
    /// Pipelines found compiled.
    pub pipeline_hits: u64,
    /// Buffers taken from the pool.
    pub pool_hits: u64,
    /// Buffers allocated.
    pub pool_misses: u64,
    /// Recording since the batch was made.
    pub record_time: Duration,
    /// Planning, or nothing if the plan was made before.
    pub plan_time: Duration,
    /// Writing and compiling kernels, or nothing if that was done before.
    pub compile_time: Duration,
    /// From the first copy to the last result.
    pub run_time: Duration,
}

impl fmt::Display for RunStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backend {
            Some(backend) => write!(f, "{backend}: ")?,
            None => return f.write_str("not run yet"),
        }
        write!(
            f,
            "{} uploads ({} bytes), {} submits, {} dispatches, {} downloads ({} bytes), peak {} bytes; \
             record {:?}, plan {:?}, compile {:?} ({} new, {} known), run {:?}",
            self.uploads,
            self.bytes_up,
            self.submits,
            self.dispatches,
            self.downloads,
            self.bytes_down,
            self.peak_bytes,
            self.record_time,
            self.plan_time,
            self.compile_time,
            self.pipelines_compiled,
            self.pipeline_hits,
            self.run_time
        )
    }
}
