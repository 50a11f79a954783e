//! Counts of one run.

/// The work of one run on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuCounts {
    /// Staging buffers sent: 0 or 1, or more in waves.
    pub uploads: u32,
    /// 0 or 1, or more in waves.
    pub submits: u32,
    /// Readback buffers mapped: 0 or 1.
    pub downloads: u32,
    pub dispatches: u32,
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// Buffers that came from the pool.
    pub pool_hits: u32,
    /// Buffers that had to be created.
    pub pool_misses: u32,
    pub bind_group_hits: u32,
    /// 1 if other runs were submitted with this one, else 0.
    pub shared: u32,
}
