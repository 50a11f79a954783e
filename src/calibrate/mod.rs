//! Short probes of the speed of a device: plans of known work, run by the engine on either side.
//!
//! All probes together take less than half a second, besides the time of compilers. A slow machine leaves out the large
//! sizes. A figure for which there was no time keeps its typical value. A browser compiles WebAssembly anew while it runs,
//! so that the cores are measured there until two rounds agree.

mod graphs;
#[cfg(test)]
mod model;
mod pairs;
mod probe;
mod probe_groups;
mod readings;
mod sides;
mod subject;
mod tiles;

use self::probe::{Bench, ProbeData};
use self::probe_groups::ProbeGroups;
pub use self::probe_groups::Progress;
pub(crate) use self::subject::{AtOnce, Pace, Subject};
use crate::base::clock::Stopwatch;
use crate::cost::{Backend, Curve, DeviceProfile, SideProfile};
use crate::error::{Error, Result, RunError};
use crate::exec::gpu::Gpu;
use crate::exec::threads;

/// Number of host threads from which a GPU is measured while some of them still compile the kernels of products.
const SPARE_THREADS: usize = 8;
/// The time of tiles, as a multiple of the time of another group.
const TILES: f64 = 6.0;

/// Rounds before the one that counts, where code is compiled while it runs.
const MOST_ROUNDS: usize = 3;
/// Two rounds agree if no rate of one is so many times that of the other. Code that is not optimised yet takes five times
/// as long and more.
const AGREES: f64 = 1.5;

/// Measures both sides, and reports each step to `progress`. Returns `None` if the pace said to stop.
pub(crate) async fn measure(
    subject: &Subject,
    pace: &dyn Pace,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Option<DeviceProfile>> {
    match measure_sides(subject, pace, groups(progress, subject)).await {
        // A clock that stands still, or a driver that answers nonsense, gives a profile that fails the check.
        Ok(profile) => Ok(profile.check().is_ok().then_some(profile)),
        Err(Error::Run(RunError::Cancelled)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The groups that the sides of `subject` take.
fn groups<'a>(
    progress: &'a mut (dyn FnMut(Progress) + Send),
    subject: &Subject,
) -> ProbeGroups<'a> {
    let (of, shares) = match &subject.gpu {
        None => (sides::GROUPS_CPU, 0.0),
        Some((gpu, _)) if gpu.info().software => (sides::GROUPS_CPU + sides::GROUPS_GPU, 0.0),
        Some(_) => (sides::GROUPS_CPU + sides::GROUPS_GPU + 1, TILES - 1.0),
    };
    ProbeGroups::new(progress, of, of as f64 + shares)
}

async fn measure_sides(
    subject: &Subject,
    pace: &dyn Pace,
    mut groups: ProbeGroups<'_>,
) -> Result<DeviceProfile> {
    let mut profile = (*subject.cpu.profile).clone();
    let data = ProbeData::default();
    let bench = Bench::on_cpu(subject, pace, &data);
    if cfg!(target_arch = "wasm32") {
        let compiling = Stopwatch::started();
        settle(&bench, &profile.cpu).await?;
        groups.compiled(compiling);
    }
    profile.cpu = sides::measure(&bench, &profile.cpu, &mut groups).await?;
    if let Some((gpu, target)) = &subject.gpu {
        let bench = Bench::on_gpu(gpu, target, pace, &data);
        let beside = threads::count() >= SPARE_THREADS;
        measure_gpu(gpu, &bench, &mut groups, &mut profile, beside).await?;
    }
    profile.measured = true;
    Ok(profile)
}

/// Measures the cores until two rounds agree: the code is compiled by then.
async fn settle(bench: &Bench<'_>, typical: &SideProfile) -> Result<()> {
    let mut before = typical.clone();
    for _ in 0..MOST_ROUNDS {
        let mut ignore = |_| {};
        let mut groups = ProbeGroups::new(&mut ignore, sides::GROUPS_CPU, sides::GROUPS_CPU as f64);
        let side = sides::measure(bench, typical, &mut groups).await?;
        if agree(&before, &side) {
            break;
        }
        before = side;
    }
    Ok(())
}

/// True if the rates of the smallest and of the largest sizes are about the same.
fn agree(one: &SideProfile, other: &SideProfile) -> bool {
    let near = |one: f64, other: f64| one < AGREES * other && other < AGREES * one;
    let first = |curve: &Curve| curve.points().first().map_or(0.0, |&(_, rate)| rate);
    fn curves(side: &SideProfile) -> [&Curve; 5] {
        let SideProfile { memory, arithmetic, reduce, product, thin_product, .. } = side;
        [memory, arithmetic, reduce, product, thin_product]
    }
    curves(one)
        .into_iter()
        .zip(curves(other))
        .all(|(one, other)| near(first(one), first(other)) && near(one.last(), other.last()))
}

/// Measures the GPU. The kernels of products are compiled beside the others, if that may be done `beside` them.
async fn measure_gpu(
    gpu: &Gpu,
    bench: &Bench<'_>,
    groups: &mut ProbeGroups<'_>,
    profile: &mut DeviceProfile,
    beside: bool,
) -> Result<()> {
    let software = gpu.info().software;
    let compiling = Stopwatch::started();
    let tiles = tiles::Gauge::new(bench, software);
    let products = tiles.plans().chain(bench.plans(sides::product_graphs()));
    let products = gpu.begin_compiling(bench.dispatches(products));
    let others = bench.compile(bench.plans(sides::other_graphs()));
    // Both are awaited, after a failure too: no driver may compile when the device is released.
    let (products, others) = if beside {
        let others = others.await;
        (products.await, others)
    } else {
        (products.await, others.await)
    };
    products?;
    others?;
    groups.compiled(compiling);
    profile.gpu = sides::measure(bench, &profile.gpu, groups).await?;
    if !software {
        let tiles = tiles::Gauge::new(bench, software);
        let until = groups.next(Backend::Gpu, "tiles", TILES);
        (profile.cores, profile.tiles) = tiles.measure(profile, until).await?;
    }
    Ok(())
}

#[cfg(test)]
#[cfg(feature = "gpu")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::test_device::found;
    use crate::exec::gpu::AdapterChoice;
    use crate::plan::Target;

    struct Stop;

    impl Pace for Stop {
        fn may_go_on(&self) -> bool {
            false
        }
    }

    #[test]
    fn rounds_agree_within_a_half() {
        let one = DeviceProfile::typical(2).cpu;
        assert!(agree(&one, &one));
        for (factor, want) in [(1.4, true), (0.8, true), (1.6, false), (0.6, false)] {
            let mut other = one.clone();
            other.product = Curve::new(vec![(1e6, factor * one.product.last())]);
            assert_eq!(agree(&one, &other), want, "{factor}");
            assert_eq!(agree(&other, &one), want, "{factor}");
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
        let mut ignore = |_| {};
        let mut groups = ProbeGroups::new(&mut ignore, 1, 1.0);
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
