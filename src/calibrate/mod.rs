//! Short probes of the speed of a device: plans of known work, run by the engine on either side.
//!
//! All probes together take less than half a second, besides the time of compilers. A slow machine leaves out the large
//! sizes. A figure for which there was no time keeps its typical value.

mod graphs;
mod probe;
mod sides;
mod tiles;

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use self::probe::{Bench, ProbeData};
use crate::base::clock::Stopwatch;
use crate::cost::{Backend, DeviceProfile};
use crate::error::{DeviceError, Error, Result, RunError};
use crate::exec::cpu::CpuPool;
use crate::exec::gpu::Gpu;
use crate::exec::threads;
use crate::plan::Target;

/// Seconds that are spent on all probes. A probe that has begun is finished.
const BUDGET: f64 = 0.42;
/// Number of host threads from which a GPU is measured while some of them still compile the kernels of products.
const SPARE_THREADS: usize = 8;
/// The time of tiles, as a multiple of the time of another group.
const TILES: f64 = 6.0;

/// The progress of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The side that is being measured.
    pub side: Backend,
    /// The figures that are being measured.
    pub what: &'static str,
    /// Groups of probes that are done.
    pub done: usize,
    /// Groups of probes in all.
    pub of: usize,
}

/// Decides when probes may run; at once, unless a method says otherwise.
pub(crate) trait Pace: Sync {
    /// Waits until nobody else computes on the device. Returns `false` if the probes must stop.
    fn may_go_on(&self) -> bool {
        true
    }

    /// The number of runs that others have begun on the device.
    fn others(&self) -> u64 {
        0
    }
}

/// The pace of a caller that waits for the figures.
pub(crate) struct AtOnce;

impl Pace for AtOnce {}

pub(crate) struct Subject {
    pub cpu: Target,
    pub pool: Arc<CpuPool>,
    pub gpu: Option<(Gpu, Target)>,
}

/// Measures both sides, and reports each step to `progress`. Returns `None` if the pace said to stop.
pub(crate) async fn measure(
    subject: &Subject,
    pace: &dyn Pace,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Option<DeviceProfile>> {
    match measure_sides(subject, pace, ProbeGroups::new(progress, subject)).await {
        // A clock that stands still, or a driver that answers nonsense, gives a profile that fails the check.
        Ok(profile) => Ok(profile.check().is_ok().then_some(profile)),
        Err(Error::Run(RunError::Cancelled)) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn measure_sides(
    subject: &Subject,
    pace: &dyn Pace,
    mut groups: ProbeGroups<'_>,
) -> Result<DeviceProfile> {
    let mut profile = (*subject.cpu.profile).clone();
    let data = ProbeData::default();
    let bench = Bench::on_cpu(subject, pace, &data);
    profile.cpu = sides::measure(&bench, &profile.cpu, &mut groups, ready(Ok(()))).await?;
    if let Some((gpu, target)) = &subject.gpu {
        let bench = Bench::on_gpu(gpu, target, pace, &data);
        let beside = threads::count() >= SPARE_THREADS;
        measure_gpu(gpu, &bench, &mut groups, &mut profile, beside).await?;
    }
    profile.measured = true;
    Ok(profile)
}

/// Measures the GPU, while the kernels of products are compiled if that may be done `beside` it.
async fn measure_gpu(
    gpu: &Gpu,
    bench: &Bench<'_>,
    groups: &mut ProbeGroups<'_>,
    profile: &mut DeviceProfile,
    beside: bool,
) -> Result<()> {
    let software = gpu.info().software;
    let compiling = Stopwatch::started();
    let tiles = tiles::Gauge::new(bench, profile, software);
    let products = tiles.plans().chain(bench.plans(sides::product_graphs()));
    let mut products = Compilation(Some(Box::pin(gpu.begin_compiling(bench.dispatches(products)))));
    let side = async {
        if !beside {
            products.end().await?;
        }
        bench.compile(bench.plans(sides::other_graphs())).await?;
        groups.compiled(compiling);
        sides::measure(bench, &profile.gpu, groups, products.end()).await
    }
    .await;
    // After a failure too: no driver may compile when the device is released.
    products.end().await?;
    profile.gpu = side?;
    if !software {
        let tiles = tiles::Gauge::new(bench, profile, software);
        let until = groups.next(Backend::Gpu, "tiles", TILES);
        (profile.cores, profile.tiles) = tiles.measure(profile, until).await?;
    }
    Ok(())
}

/// A compilation on other threads, until its end was awaited.
struct Compilation<F>(Option<Pin<Box<F>>>);

impl<F: Future<Output = Result<(), DeviceError>>> Compilation<F> {
    async fn end(&mut self) -> Result<()> {
        if let Some(compilation) = &mut self.0 {
            let ended = compilation.await;
            self.0 = None;
            ended?;
        }
        Ok(())
    }
}

/// Counts groups of probes, and shares out the time.
struct ProbeGroups<'a> {
    progress: &'a mut (dyn FnMut(Progress) + Send),
    started: Stopwatch,
    /// Seconds that compilers took.
    compiling: f64,
    done: usize,
    of: usize,
    shares: f64,
}

impl<'a> ProbeGroups<'a> {
    fn new(progress: &'a mut (dyn FnMut(Progress) + Send), subject: &Subject) -> Self {
        let (of, shares) = match &subject.gpu {
            None => (sides::GROUPS_CPU, 0.0),
            Some((gpu, _)) if gpu.info().software => (sides::GROUPS_CPU + sides::GROUPS_GPU, 0.0),
            Some(_) => (sides::GROUPS_CPU + sides::GROUPS_GPU + 1, TILES - 1.0),
        };
        let shares = of as f64 + shares;
        Self { progress, started: Stopwatch::started(), compiling: 0.0, done: 0, of, shares }
    }

    /// Begins a group that gets `shares` of the time that is left. Returns its deadline.
    fn next(&mut self, side: Backend, what: &'static str, shares: f64) -> Deadline {
        (self.progress)(Progress { side, what, done: self.done, of: self.of });
        self.done += 1;
        let now = self.now();
        let until = now + (BUDGET - now).max(0.0) * shares / self.shares.max(shares);
        self.shares -= shares;
        Deadline { clock: self.started, until: until + self.compiling }
    }

    /// Seconds so far, without those of compilers.
    fn now(&self) -> f64 {
        self.started.total().as_secs_f64() - self.compiling
    }

    /// Excludes the time since `start`, which compilers took.
    fn compiled(&mut self, start: Stopwatch) {
        self.compiling += start.total().as_secs_f64();
    }
}

/// A time after which no probe of a group begins.
#[derive(Clone, Copy)]
struct Deadline {
    clock: Stopwatch,
    until: f64,
}

impl Deadline {
    fn never() -> Self {
        Self { clock: Stopwatch::started(), until: f64::INFINITY }
    }

    /// Seconds that are left; negative once the deadline has passed.
    fn left(&self) -> f64 {
        self.until - self.clock.total().as_secs_f64()
    }
}

#[cfg(test)]
#[cfg(feature = "gpu")]
mod tests {
    use super::*;
    use crate::base::test_device::found;
    use crate::exec::gpu::AdapterChoice;

    struct Stop;

    impl Pace for Stop {
        fn may_go_on(&self) -> bool {
            false
        }
    }

    #[tokio::test]
    async fn who_is_stopped_leaves_no_compiler_at_work() {
        let opened = Gpu::open(&AdapterChoice::best(None, true), None, ()).await;
        let Some(gpu) = found(opened) else { return };
        let mut profile = DeviceProfile::typical(2);
        let target = Target {
            backend: Backend::Gpu,
            limits: gpu.limits().clone(),
            profile: Arc::new(profile.clone()),
        };
        let data = ProbeData::default();
        let bench = Bench::on_gpu(&gpu, &target, &Stop, &data);
        let mut groups = ProbeGroups {
            progress: &mut |_| {},
            started: Stopwatch::started(),
            compiling: 0.0,
            done: 0,
            of: 1,
            shares: 1.0,
        };
        // With these known, all that takes time is to compile the products.
        let others = bench.plans(sides::other_graphs());
        bench.compile(others).await.expect("kernels that compile");
        let measured = measure_gpu(&gpu, &bench, &mut groups, &mut profile, true).await;
        assert!(matches!(measured, Err(Error::Run(RunError::Cancelled))), "it was stopped");
        let products = bench.dispatches(bench.plans(sides::product_graphs()));
        let kernels = gpu.compile(products, ()).await.expect("they were compiled");
        assert_eq!(kernels.compiled, 0, "they were to be waited for");
    }
}
