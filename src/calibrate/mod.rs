//! Short probes of what a device does in a second: plans of known work, run by the engine on either side.
//!
//! All probes together take less than half a second, beside what compilers take; a slow machine leaves out the large
//! sizes, and what there was no time for keeps its typical figure.

mod graphs;
mod probe;
mod sides;
#[cfg(feature = "gpu")]
mod tiles;

use std::future::ready;
#[cfg(feature = "gpu")]
use std::pin::Pin;
use std::sync::Arc;

use self::probe::{Bench, Data};
use crate::base::clock::Stopwatch;
use crate::cost::{Backend, DeviceProfile};
#[cfg(feature = "gpu")]
use crate::error::DeviceError;
use crate::error::Result;
use crate::exec::cpu::CpuPool;
#[cfg(feature = "gpu")]
use crate::exec::gpu::Gpu;
#[cfg(feature = "gpu")]
use crate::exec::threads;
use crate::plan::Target;

/// Seconds that are spent on probes in all; one that has begun is finished.
const BUDGET: f64 = 0.42;
/// Threads of the host from which on a GPU is measured while some of them still compile the kernels of products.
#[cfg(feature = "gpu")]
const SPARE_THREADS: usize = 8;
/// What tiles get of it, in shares of other groups.
#[cfg(feature = "gpu")]
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

/// When probes may run.
pub(crate) trait Pace: Sync {
    /// Waits until nobody else computes on the device. `false`: stop.
    fn may_go_on(&self) -> bool;
    /// The number of runs that others have begun on the device.
    fn others(&self) -> u64;
}

/// For who waits for the figures: probes run at once.
pub(crate) struct AtOnce;

impl Pace for AtOnce {
    fn may_go_on(&self) -> bool {
        true
    }

    fn others(&self) -> u64 {
        0
    }
}

/// The device to measure.
pub(crate) struct Subject {
    pub cpu: Target,
    pub pool: Arc<CpuPool>,
    #[cfg(feature = "gpu")]
    pub gpu: Option<(Gpu, Target)>,
}

/// Measures both sides, telling `progress` of each step; `None` if the pace said to stop.
///
/// # Errors
/// What the device fails with.
pub(crate) async fn measure(
    subject: &Subject,
    pace: &dyn Pace,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Option<DeviceProfile>> {
    let mut profile = (*subject.cpu.profile).clone();
    let mut groups = Groups::new(progress, subject);
    let data = Data::default();
    let bench = Bench::on_cpu(subject, pace, &data);
    let Some(cpu) = sides::measure(&bench, &profile.cpu, &mut groups, ready(Ok(()))).await? else {
        return Ok(None);
    };
    profile.cpu = cpu;
    #[cfg(feature = "gpu")]
    if let Some((gpu, target)) = &subject.gpu {
        let bench = Bench::on_gpu(gpu, target, pace, &data);
        let beside = threads::count() >= SPARE_THREADS;
        if !measure_gpu(gpu, &bench, &mut groups, &mut profile, beside).await? {
            return Ok(None);
        }
    }
    profile.measured = true;
    // A clock that stands still, or a driver that answers nonsense.
    Ok(profile.check().is_ok().then_some(profile))
}

/// Measures the GPU, while the kernels of products are compiled if that may be done `beside` it; `false` if the pace said
/// to stop.
#[cfg(feature = "gpu")]
async fn measure_gpu(
    gpu: &Gpu,
    bench: &Bench<'_>,
    groups: &mut Groups<'_>,
    profile: &mut DeviceProfile,
    beside: bool,
) -> Result<bool> {
    let software = gpu.info().software;
    let compiling = Stopwatch::started();
    let tiles = tiles::Gauge::new(bench, profile, software);
    let products = tiles.plans().chain(bench.plans(sides::product_graphs()));
    let mut products = Begun(Some(Box::pin(gpu.begin_compiling(bench.dispatches(products)))));
    let side = async {
        if !beside {
            products.ended().await?;
        }
        bench.compile(bench.plans(sides::other_graphs())).await?;
        groups.compiled(compiling);
        sides::measure(bench, &profile.gpu, groups, products.ended()).await
    }
    .await;
    // Whatever came of it: no driver may be at work once the device is let go of.
    products.ended().await?;
    let Some(side) = side? else { return Ok(false) };
    profile.gpu = side;
    if !software {
        let tiles = tiles::Gauge::new(bench, profile, software);
        let until = groups.next(Backend::Gpu, "tiles", TILES);
        let Some((cores, rates)) = tiles.measure(profile, until).await? else {
            return Ok(false);
        };
        (profile.cores, profile.tiles) = (cores, rates);
    }
    Ok(true)
}

/// Work on other threads, until its end was awaited.
#[cfg(feature = "gpu")]
struct Begun<F>(Option<Pin<Box<F>>>);

#[cfg(feature = "gpu")]
impl<F: Future<Output = Result<(), DeviceError>>> Begun<F> {
    async fn ended(&mut self) -> Result<()> {
        if let Some(begun) = &mut self.0 {
            let ended = begun.await;
            self.0 = None;
            ended?;
        }
        Ok(())
    }
}

impl Subject {
    /// Groups of probes, and their shares of the time.
    fn groups(&self) -> (usize, f64) {
        let cpu = sides::GROUPS_CPU;
        #[cfg(feature = "gpu")]
        if let Some((gpu, _)) = &self.gpu {
            let both = cpu + sides::GROUPS_GPU;
            let tiles = if gpu.info().software { (0, 0.0) } else { (1, TILES) };
            return (both + tiles.0, both as f64 + tiles.1);
        }
        (cpu, cpu as f64)
    }
}

/// Counts groups of probes, and shares out the time.
struct Groups<'a> {
    progress: &'a mut (dyn FnMut(Progress) + Send),
    started: Stopwatch,
    /// Seconds that compilers took.
    compiling: f64,
    done: usize,
    of: usize,
    /// Shares of the groups to come.
    shares: f64,
}

impl<'a> Groups<'a> {
    fn new(progress: &'a mut (dyn FnMut(Progress) + Send), subject: &Subject) -> Self {
        let (of, shares) = subject.groups();
        Self { progress, started: Stopwatch::started(), compiling: 0.0, done: 0, of, shares }
    }

    /// Begins a group with so many shares of the time that is left, and says until when it has that.
    fn next(&mut self, side: Backend, what: &'static str, shares: f64) -> Deadline {
        (self.progress)(Progress { side, what, done: self.done, of: self.of });
        self.done += 1;
        let now = self.now();
        let until = now + (BUDGET - now).max(0.0) * shares / self.shares.max(shares);
        self.shares -= shares;
        Deadline { clock: self.started, until: until + self.compiling }
    }
}

/// A time after which no probe of a group begins.
#[derive(Clone, Copy)]
struct Deadline {
    clock: Stopwatch,
    until: f64,
}

impl Groups<'_> {
    /// Seconds so far, without those of compilers.
    fn now(&self) -> f64 {
        self.started.total().as_secs_f64() - self.compiling
    }

    /// Leaves the time from `start` out of account: how long compilers take says nothing of the device.
    fn compiled(&mut self, start: Stopwatch) {
        self.compiling += start.total().as_secs_f64();
    }
}

impl Deadline {
    /// Enough time for whatever is to be done.
    fn never() -> Self {
        Self { clock: Stopwatch::started(), until: f64::INFINITY }
    }

    /// Seconds that are left; less than 0 if it is past.
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

    /// Says to stop at once.
    struct Stop;

    impl Pace for Stop {
        fn may_go_on(&self) -> bool {
            false
        }

        fn others(&self) -> u64 {
            0
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
        let data = Data::default();
        let bench = Bench::on_gpu(&gpu, &target, &Stop, &data);
        let mut groups = Groups {
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
        assert!(!measured.expect("nothing failed"));
        let products = bench.dispatches(bench.plans(sides::product_graphs()));
        let kernels = gpu.compile(products, ()).await.expect("they were compiled");
        assert_eq!(kernels.compiled, 0, "they were to be waited for");
    }
}
