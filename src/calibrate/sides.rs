//! The figures of one side, from the times of probes.

use super::graphs::{self, ProbePiece};
use super::pairs::{self, lower_quartile, median};
use super::probe::{Bench, Beside};
use super::probe_groups::{Deadline, ProbeGroups};
use super::readings::{Attempts, Reading, Readings, rounded};
use crate::cost::{Backend, Ceilings, Curve, SideProfile};
use crate::error::{Result, RunError};
use crate::graph::Graph;

pub(super) const GROUPS_CPU: usize = 1 + GROUPS.len() + PRODUCTS.len();
/// Groups of probes on a GPU, without tiles.
pub(super) const GROUPS_GPU: usize = GROUPS_CPU + TRANSFERS.len();

/// A group ends with the first probe whose pieces take this many seconds each: larger ones run at the same rate.
const LONG: f64 = 0.001;
const THIN_ROWS: usize = 4;
/// If the last piece took less than this many seconds, the next probe runs even when time is up. A curve that ended
/// earlier would give all larger sizes the rate of a tiny one.
const CHEAP: f64 = 5e-5;
/// Fewest runs of a probe, the first included.
const RUNS: f64 = 1.0 + pairs::FEWEST as f64;
/// Elements of the probes that grow, on the host. One thread computes the small sizes, and all threads the large ones.
const SIZES: [usize; 9] =
    [1 << 6, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];
/// The first of the sizes on the host. Work that is smaller than the first probe is predicted to take as long as that. A
/// thousand elements of arithmetic take 2 µs on a usual core, and 20 µs in a browser, which therefore begins with fewer.
const FIRST: usize = if cfg!(target_arch = "wasm32") { 0 } else { 1 };
/// The same on a GPU, whose time is the same for all small sizes. Each further size is a further kernel to compile.
const SIZES_GPU: [usize; 4] = [1 << 12, 1 << 17, 1 << 21, 1 << 24];

const TRANSFER_SIZES: [usize; 5] = [1 << 6, 1 << 10, 1 << 14, 1 << 18, 1 << 21];
/// Kernels of the longer of two runs. The difference of the runs gives the time of a kernel.
const MANY: usize = 9;

/// The products that [`measure`] runs.
pub(super) fn product_graphs() -> impl Iterator<Item = Option<Graph>> {
    let of = |rows| products(Backend::Gpu, rows).into_iter();
    of(None).chain(of(Some(THIN_ROWS))).map(|(piece, elements)| graphs::pieces(piece, elements, 1))
}

/// All other graphs that [`measure`] runs.
pub(super) fn other_graphs() -> impl Iterator<Item = Option<Graph>> {
    let over = |(_, piece, _), sizes: &'static [usize]| {
        sizes.iter().map(move |&elements| graphs::pieces(piece, elements, 1))
    };
    let growing = GROUPS.into_iter().flat_map(move |group| over(group, &SIZES_GPU));
    let transfers = TRANSFERS.into_iter().flat_map(move |group| over(group, &TRANSFER_SIZES));
    growing.chain([1, MANY].map(|count| graphs::empty(Backend::Gpu, count))).chain(transfers)
}

/// Measures a side, starting from `typical`. All kernels were compiled: compilers take the host's threads, and beside them
/// a small kernel was measured at 230 µs.
///
/// # Errors
/// [`RunError::Cancelled`] if the pace said to stop; if the device fails.
pub(super) async fn measure(
    bench: &Bench<'_>,
    typical: &SideProfile,
    groups: &mut ProbeGroups<'_>,
) -> Result<SideProfile> {
    let mut side = typical.clone();
    let squares = products(bench.side(), None);
    let thin = products(bench.side(), Some(THIN_ROWS));
    let sizes: &[usize] = if bench.side() == Backend::Cpu { &SIZES[FIRST..] } else { &SIZES_GPU };
    let sized =
        |piece, sizes: &[usize]| sizes.iter().map(|&size| (piece, size)).collect::<Vec<_>>();

    groups.next(bench.side(), "latency", 1.0);
    let mut latency = Latency::default();
    latency.measure(bench).await?;
    for (what, piece, curve) in GROUPS {
        fit(bench, &mut side, groups, (what, curve), &sized(piece, sizes)).await?;
    }
    for (curve, pieces) in PRODUCTS.into_iter().zip([squares, thin]) {
        fit(bench, &mut side, groups, curve, &pieces).await?;
        latency.measure(bench).await?;
    }
    if bench.side() == Backend::Gpu {
        for (what, piece, curve) in TRANSFERS {
            let pieces = sized(piece, &TRANSFER_SIZES);
            fit(bench, &mut side, groups, (what, curve), &pieces).await?;
            latency.measure(bench).await?;
        }
    }
    (side.round_trip, side.dispatch) =
        latency.figures().unwrap_or((typical.round_trip, typical.dispatch));
    Ok(side)
}

/// The place of a curve in a profile.
type CurveAt = fn(&mut SideProfile) -> &mut Curve;

/// Groups of square products, and of those with few rows.
const PRODUCTS: [(&str, CurveAt); 2] =
    [("products", |side| &mut side.product), ("thin products", |side| &mut side.thin_product)];

/// Groups of transfers between host and device.
const TRANSFERS: [(&str, ProbePiece, CurveAt); 2] = [
    ("uploads", ProbePiece::Upload, |side| &mut side.upload),
    ("downloads", ProbePiece::Download, |side| &mut side.download),
];

/// Groups of probes that grow with their elements.
const GROUPS: [(&str, ProbePiece, CurveAt); 5] = [
    ("memory", ProbePiece::Copy, |side| &mut side.memory),
    ("arithmetic", ProbePiece::Arithmetic, |side| &mut side.arithmetic),
    ("transcendental functions", ProbePiece::Transcendental, |side| &mut side.transcendental),
    ("reductions", ProbePiece::Sum, |side| &mut side.reduce),
    ("rows", ProbePiece::Softmax, |side| &mut side.row),
];

/// Square products, or products with `rows` rows. A GPU has few, since its tiles are measured by themselves.
fn products(side: Backend, rows: Option<usize>) -> Vec<(ProbePiece, usize)> {
    let sides: &[usize] = match (side, rows) {
        (Backend::Cpu, None) => &[16, 32, 64, 128, 256, 512, 1024, 2048],
        (Backend::Cpu, Some(_)) => &[64, 256, 512, 1024, 2048],
        (Backend::Gpu, None) => &[16, 128, 512, 2048],
        (Backend::Gpu, Some(_)) => &[64, 512, 2048],
    };
    let product = |&n: &usize| (ProbePiece::Product { m: rows.unwrap_or(n), n, k: n }, 0);
    sides.iter().map(product).collect()
}

/// The seconds of an empty run and of each kernel. They are measured at the beginning and after each group from the
/// products on, since a device may need a while until it is as fast as in use: a card that was idle, a host that compiles
/// kernels meanwhile.
#[derive(Default)]
struct Latency {
    /// Seconds of runs of one kernel.
    runs: Vec<f64>,
    /// Seconds of each further kernel.
    kernels: Vec<f64>,
}

impl Latency {
    /// Compares runs of one and of nine kernels that do next to nothing.
    async fn measure(&mut self, bench: &Bench<'_>) -> Result<()> {
        let difference = bench.time_empty(1, MANY).await?.ok_or(RunError::Cancelled)?;
        self.runs.push(difference.shorter);
        self.kernels.push(difference.seconds() / (MANY - 1) as f64);
        Ok(())
    }

    /// The seconds of a run without its kernels, and of a kernel, as they were at rest.
    fn figures(&self) -> Option<(f64, f64)> {
        // A difference errs to both sides.
        let (run, kernel) = (lower_quartile(&self.runs)?, median(&self.kernels)?);
        Some((rounded((run - kernel).max(0.1 * run)), rounded(kernel)))
    }
}

/// Measures one group of probes, from the smallest piece on until one takes long, and sets the group's curve.
async fn fit(
    bench: &Bench<'_>,
    side: &mut SideProfile,
    groups: &mut ProbeGroups<'_>,
    (what, curve): (&'static str, CurveAt),
    pieces: &[(ProbePiece, usize)],
) -> Result<()> {
    let deadline = groups.next(bench.side(), what, 1.0);
    let ceilings = Ceilings::of(bench.side(), side.threads);
    let ceiling = match pieces.first() {
        Some((ProbePiece::Copy, _)) => ceilings.bytes,
        Some((ProbePiece::Upload | ProbePiece::Download, _)) => ceilings.link,
        _ => ceilings.flops,
    };
    let mut readings = Readings::new(ceiling);
    let (mut seconds, mut before) = (0.0, 1.0);
    for &(piece, elements) in pieces {
        let amount = match piece {
            ProbePiece::Product { m, n, k } => (m * n * k) as f64,
            _ => elements as f64,
        };
        // The first probe always runs: a typical figure beside measured ones would mislead.
        let mut due = if seconds < CHEAP { deadline.at_least_once() } else { deadline };
        // A piece takes at most as many times longer as it is larger.
        let longest = seconds * (amount / before) * RUNS;
        if seconds > LONG || (seconds >= CHEAP && longest > due.left()) {
            break;
        }
        before = amount;
        // Several small pieces a run make the time of the run itself matter less, but a GPU would overlap them.
        let times = match bench.side() {
            Backend::Gpu => 1,
            Backend::Cpu if seconds > LONG / 20.0 || elements > 1 << 20 => 2,
            Backend::Cpu => 8,
        };
        let mut attempts = Attempts::new(ceiling);
        while attempts.are_too_few() {
            match reading(bench, piece, elements, times, due).await? {
                Some(found) => attempts.add(found),
                None => break,
            }
            due = deadline;
        }
        let Some(found) = attempts.best else { break };
        seconds = found.seconds;
        readings.push(found);
    }
    if let Some(fitted) = readings.curve(bench.side(), what) {
        let curve = curve(side);
        // Sizes for which there was no time keep their typical rates.
        *curve = if seconds > LONG { fitted } else { fitted.extended_by(curve) };
    }
    Ok(())
}

/// The time of one of `times` pieces; `None` if no time is left for it.
async fn reading(
    bench: &Bench<'_>,
    piece: ProbePiece,
    elements: usize,
    times: usize,
    due: Deadline,
) -> Result<Option<Reading>> {
    let beside = match piece {
        ProbePiece::Download => {
            Beside::Graph(graphs::pieces(ProbePiece::Broadcast, elements, times))
        }
        _ => Beside::Empty,
    };
    let timing = bench.time(graphs::pieces(piece, elements, times), beside, due).await?;
    Ok(timing.map(|timing| {
        let size = match piece {
            ProbePiece::Upload | ProbePiece::Download => timing.moved,
            ProbePiece::Copy => timing.bytes,
            _ => timing.flops,
        };
        Reading::new(size, times, &timing.difference)
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cost::{DeviceProfile, Limits};
    use crate::plan::{Target, plan};

    #[test]
    fn a_probe_of_the_smallest_size_has_work() {
        let profile = Arc::new(DeviceProfile::typical(2));
        let target = Target { backend: Backend::Cpu, limits: Limits::cpu(), profile };
        for (what, piece, _) in GROUPS {
            let graph = graphs::pieces(piece, SIZES[0], 1).expect("a graph");
            let made = plan(&graph, &target).expect("a sound graph");
            assert!(
                made.steps.iter().all(|step| step.cost.flops > 0 || what == "memory"),
                "{what}"
            );
            assert_eq!(made.dispatches(), 1, "{what}");
        }
    }
}
