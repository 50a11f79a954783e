//! The figures of one side, from the times of probes.

use super::graphs::{self, ProbePiece};
use super::probe::{Bench, REPEATS};
use super::probe_groups::{Deadline, ProbeGroups};
use crate::base::clock::Stopwatch;
use crate::cost::{Backend, Curve, SideProfile};
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
const RUNS: f64 = 1.0 + REPEATS as f64;
/// Elements of the probes that grow, on the host. One thread computes the small sizes, and all threads the large ones.
const SIZES: [usize; 8] = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];
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
    growing.chain([1, MANY].map(graphs::chain)).chain(transfers)
}

/// Measures a side, starting from `typical`. Products can run, and host threads are free, once `compiled` is ready.
///
/// # Errors
/// [`RunError::Cancelled`] if the pace said to stop; if the device fails.
pub(super) async fn measure(
    bench: &Bench<'_>,
    typical: &SideProfile,
    groups: &mut ProbeGroups<'_>,
    compiled: impl Future<Output = Result<()>>,
) -> Result<SideProfile> {
    let mut side = typical.clone();
    let squares = products(bench.side(), None);
    let thin = products(bench.side(), Some(THIN_ROWS));
    let sizes: &[usize] = if bench.side() == Backend::Cpu { &SIZES } else { &SIZES_GPU };
    let sized =
        |piece, sizes: &[usize]| sizes.iter().map(|&size| (piece, size)).collect::<Vec<_>>();

    groups.next(bench.side(), "latency", 1.0);
    (side.round_trip, side.dispatch) = latency(bench).await?;
    for (what, piece, curve) in GROUPS {
        fit(bench, &mut side, groups, (what, curve), &sized(piece, sizes)).await?;
    }
    let waiting = Stopwatch::started();
    compiled.await?;
    groups.compiled(waiting);
    for (curve, pieces) in PRODUCTS.into_iter().zip([squares, thin]) {
        fit(bench, &mut side, groups, curve, &pieces).await?;
    }
    if bench.side() == Backend::Gpu {
        for (what, piece, curve) in TRANSFERS {
            let pieces = sized(piece, &TRANSFER_SIZES);
            fit(bench, &mut side, groups, (what, curve), &pieces).await?;
        }
    }
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

/// The seconds of an empty run, and of each kernel, from runs of one and of nine kernels that do next to nothing. On a
/// GPU each kernel waits for the one before, as those of a user mostly do.
async fn latency(bench: &Bench<'_>) -> Result<(f64, f64)> {
    let mut times = [0.0; 2];
    for (time, count) in times.iter_mut().zip([1, MANY]) {
        let graph = match bench.side() {
            Backend::Cpu => graphs::pieces(ProbePiece::Copy, 4, count),
            Backend::Gpu => graphs::chain(count),
        };
        // Once for a card to wake up: compilers had the time before.
        bench.time(graph.clone(), Deadline::never()).await?;
        let timing = bench.time(graph, Deadline::never()).await?;
        *time = timing.ok_or(RunError::Cancelled)?.seconds;
    }
    let [one, many] = times;
    let dispatch = ((many - one) / (MANY - 1) as f64).max(0.02 * one / MANY as f64);
    Ok((rounded((one - dispatch).max(0.1 * one)), rounded(dispatch)))
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
    let mut points = Vec::new();
    let (mut seconds, mut before) = (0.0, 1.0);
    for &(piece, elements) in pieces {
        let amount = match piece {
            ProbePiece::Product { m, n, k } => (m * n * k) as f64,
            _ => elements as f64,
        };
        // The first probe always runs: a typical figure beside measured ones would mislead.
        let due = if seconds < CHEAP { Deadline::never() } else { deadline };
        // A piece takes at most as many times longer as it is larger.
        if seconds > LONG || seconds * (amount / before) * RUNS > due.left() {
            break;
        }
        before = amount;
        // Several small pieces a run make the time of the run itself matter less, but a GPU would overlap them.
        let times = match bench.side() {
            Backend::Gpu => 1,
            Backend::Cpu if seconds > LONG / 20.0 || elements > 1 << 20 => 2,
            Backend::Cpu => 8,
        };
        let Some(timing) = bench.time(graphs::pieces(piece, elements, times), due).await? else {
            break;
        };
        // The unit of the curve, the seconds that the kernel of a transfer takes, and the least share of the run.
        let (size, kernel, least) = match piece {
            ProbePiece::Upload => (timing.moved, side.memory.seconds(0.0), 0.05),
            ProbePiece::Download => (timing.moved, side.memory.seconds(timing.moved), 0.05),
            ProbePiece::Copy => (timing.bytes, 0.0, 0.02),
            _ => (timing.flops, 0.0, 0.02),
        };
        seconds = (timing.seconds - side.round_trip) / times as f64 - side.dispatch - kernel;
        seconds = seconds.max(least * timing.seconds / times as f64);
        push(&mut points, size, seconds);
    }
    if !points.is_empty() {
        *curve(side) = Curve::new(points);
    }
    Ok(())
}

/// Adds a point to a curve, rounded to few digits.
fn push(points: &mut Vec<(f64, f64)>, size: f64, seconds: f64) {
    let rate = rounded(size / seconds);
    let ascends = points.last().is_none_or(|&(last, _)| last < size);
    if rate.is_finite() && rate > 0.0 && ascends {
        points.push((size, rate));
    }
}

pub(super) fn rounded(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let text = format!("{x:.3e}");
    text.parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_four_digits() {
        assert_eq!(rounded(123_456.0), 123_500.0);
        assert_eq!(rounded(1.234_56e-6), 1.235e-6);
        assert_eq!(rounded(0.0), 0.0);
        assert!(rounded(f64::NAN).is_nan());
    }

    #[test]
    fn points_ascend_and_are_rates() {
        let mut points = Vec::new();
        push(&mut points, 10.0, 2.0);
        push(&mut points, 10.0, 1.0);
        push(&mut points, 20.0, 0.0);
        push(&mut points, 30.0, 3.0);
        assert_eq!(points, [(10.0, 5.0), (30.0, 10.0)]);
    }
}
