//! The counters of a device, for the monitoring of services and for runs that count.

use super::Device;
use super::parts::counters::{CountedRun, Counters, Metrics, PoolStats};
use super::parts::device_gpu::DeviceGpu;

/// Counters and memory.
impl Device {
    /// The runs, kernels, bytes and times of the device since it was opened, with its [`pool_stats`](Self::pool_stats).
    /// They are plain numbers for an exporter of metrics, and print as a summary.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::cpu();
    /// device.eval(|b| b.arange(0.0_f32, 4.0, 1.0)).await?;
    /// let metrics = device.metrics();
    /// assert_eq!((metrics.cpu_runs, metrics.failed), (1, 0));
    /// assert!(metrics.to_string().starts_with("1 run (1 cpu), 0 failed\n"));
    /// assert!(metrics.to_prometheus().contains("\nonetrip_cpu_runs_total 1\n"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.0.counters.metrics(self.0.busy_tracker.running() as u64, self.pool_stats())
    }

    /// The counters of the device's pools of memory and of its plans since it was opened.
    #[must_use]
    pub fn pool_stats(&self) -> PoolStats {
        let gpu = self.device_gpu().map(|gpu| gpu.opened().memory_counts()).unwrap_or_default();
        let losses = self.device_gpu().map_or(0, DeviceGpu::losses);
        let (plan_hits, plan_misses, plans) = self.0.profiles.plans.counts();
        PoolStats { gpu, host: self.pool().counts(), plan_hits, plan_misses, plans, losses }
    }

    /// Frees all unused memory. Memory unused for 20 to 40 seconds is freed without this call.
    ///
    /// ```
    /// let device = onetrip::Device::cpu();
    /// device.trim();
    /// assert_eq!(device.pool_stats().host.idle_bytes, 0);
    /// ```
    pub fn trim(&self) {
        if let Some(gpu) = self.opened() {
            gpu.trim();
        }
        self.pool().trim();
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Counts a run that is dropped before its end, if it `counts`.
    pub(crate) fn counted(&self, counts: bool) -> CountedRun<'_> {
        CountedRun(counts.then_some(&self.0.counters))
    }
}
