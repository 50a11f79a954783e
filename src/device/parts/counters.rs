//! Counters of a device since it was opened, for the monitoring of services.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::clock::nanoseconds;
use crate::base::units::{bytes, count, seconds};
use crate::exec::memory::MemoryCounts;

/// Defines each counter once: its name and its meaning. Times are counted in nanoseconds, and have a second name for
/// Prometheus, whose unit of time is the second.
macro_rules! counters {
    (
        counts { $($counter:ident $field:ident $help:literal;)* }
        times { $($timer:ident $nanoseconds:ident $seconds:ident $spent:literal;)* }
    ) => {
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Counter {
            $($counter,)*
            $($timer,)*
        }

        /// The counters of a device since it was opened, from [`Device::metrics`](crate::Device::metrics). The counters
        /// only grow, but for the hits and misses of the GPU's pool, which begin anew when it is opened again.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct Metrics {
            $(#[doc = concat!($help, ".")] pub $field: u64,)*
            $(#[doc = concat!($spent, ", in nanoseconds.")] pub $nanoseconds: u64,)*
            /// Runs under way.
            pub running: u64,
            /// The counters of the pools and the plans.
            pub pools: PoolStats,
        }

        #[derive(Default)]
        pub(crate) struct Counters {
            values: [AtomicU64; [$(stringify!($counter),)* $(stringify!($timer)),*].len()],
        }

        impl Counters {
            pub fn metrics(&self, running: u64, pools: PoolStats) -> Metrics {
                Metrics {
                    $($field: self.get(Counter::$counter),)*
                    $($nanoseconds: self.get(Counter::$timer),)*
                    running,
                    pools,
                }
            }
        }

        impl Metrics {
            fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($field), $help, self.$field),)*]
            }

            /// Name, help and value of each counter of times.
            fn times(&self) -> Vec<(&'static str, &'static str, Duration)> {
                vec![$((stringify!($seconds), $spent, Duration::from_nanos(self.$nanoseconds)),)*]
            }
        }
    };
}
counters! {
    counts {
        CpuRuns cpu_runs "Runs finished on the host's cores";
        GpuRuns gpu_runs "Runs finished on the GPU";
        Faults faults "Runs that ended with a fault in their data, such as an index out of range";
        Failed failed "Runs that ended with an error, faults in their data included";
        Repeated repeated "Attempts at a run whose GPU was lost, and which were repeated";
        Cancelled cancelled "Runs that were dropped before they were done";
        Late late "Runs that missed their deadline";
        SharedSubmits shared_submits "Attempts at runs that were submitted to the GPU together with others";
        Kernels kernels "Kernels launched";
        BytesUp bytes_up "Bytes that runs brought to the device";
        BytesDown bytes_down "Bytes that runs brought back";
        ResidentsUp residents_up "Residents brought to the GPU, each on its own beside the trips of runs";
        ResidentsDown residents_down "Residents brought back from the GPU on their own, large ones in parts that count each";
        ResidentBytesUp resident_bytes_up "Bytes of residents that were brought to the GPU";
        ResidentBytesDown resident_bytes_down "Bytes of residents that were brought back";
        Compiled pipelines_compiled "Pipelines compiled, those found on disk too";
    }
    times {
        CompileNanos compile_nanoseconds compile_seconds "Time of writing and compiling kernels";
        WaitNanos wait_nanoseconds wait_seconds "Time that runs waited for room in the memory budget, summed over runs, overlapping ones too";
        RunNanos run_nanoseconds run_seconds "Time from the first copy of a run to its last result, queueing for cores and the GPU included, summed over runs, overlapping ones too";
        PredictedNanos predicted_nanoseconds predicted_seconds "Time that the planner predicted from first copies to last results, summed over runs";
    }
}

impl Counters {
    pub fn add(&self, counter: Counter, amount: u64) {
        if amount > 0 {
            self.values[counter as usize].fetch_add(amount, Ordering::Relaxed);
        }
    }

    pub fn spend(&self, timer: Counter, time: Duration) {
        self.add(timer, nanoseconds(time));
    }

    fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }
}

impl Metrics {
    /// The metrics in the text format that Prometheus reads, each named `onetrip_` and more; times in seconds.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let PoolStats { gpu, host, plan_hits, plan_misses, plans, losses } = self.pools;
        let mut page = String::new();
        let mut say = |kind: &str, name: &str, help: &str, value: &dyn fmt::Display| {
            let _ = writeln!(page, "# HELP onetrip_{name} {help}.\n# TYPE onetrip_{name} {kind}");
            let _ = writeln!(page, "onetrip_{name} {value}");
        };
        for (name, help, value) in self.counters() {
            say("counter", &format!("{name}_total"), help, &value);
        }
        for (name, help, time) in self.times() {
            let help = format!("{help}, in seconds");
            say("counter", &format!("{name}_total"), &help, &time.as_secs_f64());
        }
        say("counter", "plan_hits_total", "Batches of a structure planned before", &plan_hits);
        say("counter", "plan_misses_total", "Batches that were planned", &plan_misses);
        say("counter", "losses_total", "Devices lost", &losses);
        say("gauge", "plans", "Plans held", &plans);
        say("gauge", "running", "Runs under way", &self.running);
        for (side, counts) in [("gpu", gpu), ("host", host)] {
            let counters = [
                ("hits", "Requests met with memory used before", counts.hits),
                ("misses", "Requests that allocated", counts.misses),
            ];
            for (name, help, value) in counters {
                say("counter", &format!("{side}_pool_{name}_total"), help, &value);
            }
            let gauges = [
                ("live", "Bytes in use", counts.live_bytes),
                ("idle", "Bytes that lie idle", counts.idle_bytes),
                ("peak", "Most bytes in use and idle at once", counts.peak_bytes),
            ];
            for (name, help, value) in gauges {
                say("gauge", &format!("{side}_pool_{name}_bytes"), help, &value);
            }
        }
        page
    }
}

/// The text leaves out counts of 0, except those of failed runs, kernels, transfers and memory.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |nanoseconds: u64| seconds(nanoseconds as f64 * 1e-9);
        let sides = nonzero(&[(self.cpu_runs, "cpu"), (self.gpu_runs, "gpu")]);
        let runs = count(self.cpu_runs + self.gpu_runs, "run");
        let sides = if sides.is_empty() { sides } else { format!(" ({sides})") };
        write!(f, "{runs}{sides}, {} failed", self.failed)?;
        let others = nonzero(&[
            (self.faults, "of them by faults in data"),
            (self.running, "under way"),
            (self.cancelled, "cancelled"),
            (self.late, "late"),
            (self.repeated, "repeated"),
            (self.shared_submits, "attempts that shared a submit"),
        ]);
        writeln!(f, "{}{others}", if others.is_empty() { "" } else { ", " })?;
        let [kernels, pipelines] =
            [(self.kernels, "kernel"), (self.pipelines_compiled, "pipeline")]
                .map(|(n, noun)| count(n, noun));
        let (up, down) = (bytes(self.bytes_up), bytes(self.bytes_down));
        write!(f, "{kernels}, {up} up, {down} down")?;
        if self.pipelines_compiled > 0 {
            write!(f, "; {pipelines} compiled in {}", time(self.compile_nanoseconds))?;
        }
        if self.run_nanoseconds > 0 {
            let (run, predicted) = (time(self.run_nanoseconds), time(self.predicted_nanoseconds));
            write!(
                f,
                "\nfirst copy to last result, summed over runs, overlapping ones too: {run} "
            )?;
            write!(f, "(predicted {predicted})")?;
            if self.wait_nanoseconds > 0 {
                write!(f, ", wait for memory budget {}", time(self.wait_nanoseconds))?;
            }
        }
        if self.residents_up + self.residents_down > 0 {
            let (up, down) = (bytes(self.resident_bytes_up), bytes(self.resident_bytes_down));
            let (brought, fetched) = (self.residents_up, self.residents_down);
            write!(
                f,
                "\nresidents moved beside runs: {brought} up ({up}), {fetched} down ({down})"
            )?;
        }
        write!(f, "\n{}", self.pools)
    }
}

/// The numbers with their words, but for those that are 0.
fn nonzero(numbers: &[(u64, &str)]) -> String {
    let some = numbers.iter().filter(|(number, _)| *number > 0);
    some.map(|(number, word)| format!("{number} {word}")).collect::<Vec<_>>().join(", ")
}

/// A run under way, which counts as cancelled unless it is said to have ended.
pub(crate) struct CountedRun<'a>(pub(in crate::device) Option<&'a Counters>);

impl CountedRun<'_> {
    pub fn end(mut self) {
        self.0 = None;
    }

    /// Counts the run as late.
    pub fn end_late(mut self) {
        if let Some(counters) = self.0.take() {
            counters.add(Counter::Late, 1);
        }
    }
}

impl Drop for CountedRun<'_> {
    fn drop(&mut self) {
        if let Some(counters) = self.0 {
            counters.add(Counter::Cancelled, 1);
        }
    }
}

/// The counters of a device's pools and caches since it was opened, from [`Device::pool_stats`](crate::Device::pool_stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PoolStats {
    /// Memory of the GPU as it was last opened, and memory of the host that it copies from and to.
    pub gpu: MemoryCounts,
    /// Memory of runs on the host's cores and of uploads. The output memory of a run counts as live only after
    /// the run ends.
    pub host: MemoryCounts,
    /// Batches of a structure that was planned before.
    pub plan_hits: u64,
    /// Batches that were planned.
    pub plan_misses: u64,
    /// Plans that the device holds; at most 1024.
    pub plans: usize,
    /// The number of losses of the GPU.
    pub losses: u64,
}

/// The text leaves out the GPU where nothing used its memory.
impl fmt::Display for PoolStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.gpu != MemoryCounts::default() {
            writeln!(f, "memory of the gpu: {}", self.gpu)?;
        }
        writeln!(f, "memory of the host: {}", self.host)?;
        write!(f, "plans: {} held, {} made, ", self.plans, self.plan_misses)?;
        write!(f, "found again {}", count(self.plan_hits, "time"))?;
        if self.losses > 0 {
            write!(f, "\nthe gpu was lost {}", count(self.losses, "time"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_leaves_out_what_did_not_happen() {
        let host = MemoryCounts { hits: 1, misses: 9, live_bytes: 64, ..MemoryCounts::default() };
        let pools = PoolStats { host, plan_misses: 2, plans: 2, ..PoolStats::default() };
        let mut metrics = Metrics { cpu_runs: 3, kernels: 3, pools, ..Metrics::default() };
        let want = "3 runs (3 cpu), 0 failed\n3 kernels, 0 B up, 0 B down\n\
                    memory of the host: 64 B in use, 0 B idle, 0 B at most; 9 allocations, 1 reuse\n\
                    plans: 2 held, 2 made, found again 0 times";
        assert_eq!(metrics.to_string(), want);
        (metrics.gpu_runs, metrics.late, metrics.residents_up) = (1, 2, 1);
        (metrics.pipelines_compiled, metrics.compile_nanoseconds) = (1, 5000);
        (metrics.run_nanoseconds, metrics.wait_nanoseconds) = (2000, 1000);
        metrics.pools.gpu.misses = 1;
        let all = metrics.to_string();
        assert!(all.starts_with("4 runs (3 cpu, 1 gpu), 0 failed, 2 late\n"), "{all}");
        for line in [
            "; 1 pipeline compiled in 5.0 µs\n",
            "too: 2.0 µs (predicted 0 ns), wait for memory budget 1.0 µs\n",
            "residents moved beside runs: 1 up (0 B), 0 down (0 B)\n",
            "memory of the gpu: ",
        ] {
            assert!(all.contains(line), "{line}: {all}");
        }
        let none = Metrics::default().to_string();
        assert!(none.starts_with("0 runs, 0 failed\n0 kernels"), "{none}");
    }
}
