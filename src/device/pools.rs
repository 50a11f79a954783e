//! What a device counts while it serves.

use std::fmt;

use super::Device;
use crate::base::units::count;
use crate::exec::memory::MemoryCounts;

/// What a device's pools and caches have counted since it was opened, from [`Device::pool_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PoolStats {
    /// Memory of the GPU as it was last opened, and memory of the host that it copies from and to.
    pub gpu: MemoryCounts,
    /// Memory of runs on the host's cores and of uploads. What a run writes to is counted as live only when it has
    /// finished.
    pub host: MemoryCounts,
    /// Batches of a structure that was planned before.
    pub plan_hits: u64,
    /// Batches that were planned.
    pub plan_misses: u64,
    /// Plans that the device holds; at most 1024.
    pub plans: usize,
    /// How often the GPU was lost.
    pub losses: u64,
}

impl fmt::Display for PoolStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "memory of the gpu: {}", self.gpu)?;
        writeln!(f, "memory of the host: {}", self.host)?;
        let (hits, misses) = (count(self.plan_hits, "hit"), count(self.plan_misses, "miss"));
        write!(f, "plans: {} held; {hits}, {misses}", self.plans)?;
        if self.losses > 0 {
            write!(f, "\nthe gpu was lost {}", count(self.losses, "time"))?;
        }
        Ok(())
    }
}

impl Device {
    /// What the device's pools of memory and its plans have counted since it was opened.
    #[must_use]
    pub fn pool_stats(&self) -> PoolStats {
        #[cfg(feature = "gpu")]
        let gpu = self.card().map(super::Card::memory).unwrap_or_default();
        #[cfg(not(feature = "gpu"))]
        let gpu = MemoryCounts::default();
        #[cfg(feature = "gpu")]
        let losses = self.card().map_or(0, super::Card::losses);
        #[cfg(not(feature = "gpu"))]
        let losses = 0;
        let (plan_hits, plan_misses, plans) = self.0.plans.counts();
        PoolStats { gpu, host: self.pool().counts(), plan_hits, plan_misses, plans, losses }
    }

    /// Frees all memory that lies idle. What was not used for 20 to 40 seconds is freed without it.
    pub fn trim(&self) {
        #[cfg(feature = "gpu")]
        if let Some(gpu) = self.opened() {
            gpu.trim();
        }
        self.pool().trim();
    }
}
