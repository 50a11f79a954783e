//! The figures of one side, from the times of probes.

use super::graphs::{self, Piece};
use super::probe::{Bench, REPEATS, Sample, Timing};
use super::{Deadline, Groups};
use crate::base::clock::Stopwatch;
use crate::cost::{Backend, Curve, SideProfile};
use crate::error::Result;
use crate::graph::Graph;

/// Groups of probes on the host.
pub(super) const GROUPS_CPU: usize = 1 + GROUPS.len() + PRODUCTS.len();
/// Groups of probes on a GPU, without tiles.
#[cfg(feature = "gpu")]
pub(super) const GROUPS_GPU: usize = GROUPS_CPU + 2;

/// A group ends with the first probe whose pieces take so many seconds each: larger ones run at the same rate.
const LONG: f64 = 0.001;
/// Rows of products that have few.
const THIN_ROWS: usize = 4;
/// Up to so many seconds the next probe is made even where time is up: a curve that ends before would say of all that is
/// larger that it goes at the rate of something tiny.
const CHEAP: f64 = 5e-5;
/// Runs of a probe at the least, the first included.
const RUNS: f64 = 1.0 + REPEATS as f64;
/// Elements of the probes that grow, on the host, where one thread is at work up to some size and all from there on.
const SIZES: [usize; 8] = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];
/// The same on a GPU, which is as fast for all that is small; other sizes are other kernels to compile.
const SIZES_GPU: [usize; 4] = [1 << 12, 1 << 17, 1 << 21, 1 << 24];

/// Elements of the transfers.
const TRANSFERS: [usize; 5] = [1 << 6, 1 << 10, 1 << 14, 1 << 18, 1 << 21];
/// Kernels of the longer of the two runs whose difference is what each takes.
const MANY: usize = 9;

/// The products that [`measure`] runs.
#[cfg(feature = "gpu")]
pub(super) fn product_graphs() -> impl Iterator<Item = Option<Graph>> {
    let of = |rows| products(Backend::Gpu, rows).into_iter();
    of(None).chain(of(Some(THIN_ROWS))).map(|(piece, elements)| graphs::pieces(piece, elements, 1))
}

/// All other graphs that [`measure`] runs.
#[cfg(feature = "gpu")]
pub(super) fn other_graphs() -> impl Iterator<Item = Option<Graph>> {
    let sized = GROUPS.map(|(_, piece, _)| SIZES_GPU.map(|elements| (piece, elements)));
    let pieces = sized.into_iter().flatten();
    let pieces = pieces.map(|(piece, elements)| graphs::pieces(piece, elements, 1));
    let moves = TRANSFERS.iter().flat_map(|&n| [graphs::upload(n), graphs::download(n)]);
    pieces.chain([1, MANY].map(graphs::chain)).chain(moves)
}

/// Measures a side, starting from `typical`; `None` if it was stopped. Products can run, and host threads are free, once
/// `compiled` says so.
pub(super) async fn measure(
    bench: &Bench<'_>,
    typical: &SideProfile,
    groups: &mut Groups<'_>,
    compiled: impl Future<Output = Result<()>>,
) -> Result<Option<SideProfile>> {
    let mut side = typical.clone();
    let squares = products(bench.side(), None);
    let thin = products(bench.side(), Some(THIN_ROWS));
    let sizes: &[usize] = if bench.side() == Backend::Cpu { &SIZES } else { &SIZES_GPU };

    groups.next(bench.side(), "latency", 1.0);
    let Some((round_trip, dispatch)) = latency(bench).await? else { return Ok(None) };
    (side.round_trip, side.dispatch) = (round_trip, dispatch);
    for (what, piece, curve) in GROUPS {
        let deadline = groups.next(bench.side(), what, 1.0);
        let pieces: Vec<_> = sizes.iter().map(|&elements| (piece, elements)).collect();
        let Some(points) = points(bench, &side, &pieces, deadline).await? else { return Ok(None) };
        set(curve(&mut side), points);
    }
    let waiting = Stopwatch::started();
    compiled.await?;
    groups.compiled(waiting);
    for ((what, curve), pieces) in PRODUCTS.into_iter().zip([squares, thin]) {
        let deadline = groups.next(bench.side(), what, 1.0);
        let Some(points) = points(bench, &side, &pieces, deadline).await? else { return Ok(None) };
        set(curve(&mut side), points);
    }
    if bench.side() == Backend::Cpu {
        return Ok(Some(side));
    }
    for transfer in [Transfer::Up, Transfer::Down] {
        let deadline = groups.next(bench.side(), transfer.name(), 1.0);
        let Some(points) = transfers(bench, &side, transfer, deadline).await? else {
            return Ok(None);
        };
        set(transfer.curve(&mut side), points);
    }
    Ok(Some(side))
}

/// The place of a curve in a profile.
type At = fn(&mut SideProfile) -> &mut Curve;

/// Groups of square products, and of those with few rows.
const PRODUCTS: [(&str, At); 2] =
    [("products", |side| &mut side.product), ("thin products", |side| &mut side.thin_product)];

/// The direction of a transfer between host and device.
#[derive(Clone, Copy)]
enum Transfer {
    Up,
    Down,
}

impl Transfer {
    fn name(self) -> &'static str {
        match self {
            Self::Up => "uploads",
            Self::Down => "downloads",
        }
    }

    fn graph(self, elements: usize) -> Option<Graph> {
        match self {
            Self::Up => graphs::upload(elements),
            Self::Down => graphs::download(elements),
        }
    }

    fn curve(self, side: &mut SideProfile) -> &mut Curve {
        match self {
            Self::Up => &mut side.upload,
            Self::Down => &mut side.download,
        }
    }

    /// Seconds of the kernel that runs beside one of so many `bytes`.
    fn kernel(self, side: &SideProfile, bytes: f64) -> f64 {
        let written = match self {
            Self::Up => 0.0,
            Self::Down => bytes,
        };
        side.dispatch + side.memory.seconds(written)
    }
}

/// Groups of probes that grow with their elements.
const GROUPS: [(&str, Piece, At); 5] = [
    ("memory", Piece::Copy, |side| &mut side.memory),
    ("arithmetic", Piece::Arithmetic, |side| &mut side.arithmetic),
    ("transcendental functions", Piece::Transcendental, |side| &mut side.transcendental),
    ("reductions", Piece::Sum, |side| &mut side.reduce),
    ("rows", Piece::Softmax, |side| &mut side.row),
];

fn set(curve: &mut Curve, points: Vec<(f64, f64)>) {
    if !points.is_empty() {
        *curve = Curve::new(points);
    }
}

/// Square products, or products with so many rows. On a GPU few: its tiles are measured by themselves.
fn products(side: Backend, rows: Option<usize>) -> Vec<(Piece, usize)> {
    let sides: &[usize] = match (side, rows) {
        (Backend::Cpu, None) => &[16, 32, 64, 128, 256, 512, 1024, 2048],
        (Backend::Cpu, Some(_)) => &[64, 256, 512, 1024, 2048],
        (Backend::Gpu, None) => &[16, 128, 512, 2048],
        (Backend::Gpu, Some(_)) => &[64, 512, 2048],
    };
    let product = |&n: &usize| (Piece::Product { m: rows.unwrap_or(n), n, k: n }, 0);
    sides.iter().map(product).collect()
}

/// The seconds of an empty run, and of each kernel: from runs of one and of nine that do next to nothing. On a GPU each
/// waits for the one before, as those of a user mostly do.
async fn latency(bench: &Bench<'_>) -> Result<Option<(f64, f64)>> {
    let mut times = [0.0; 2];
    for (time, count) in times.iter_mut().zip([1, MANY]) {
        let graph = match bench.side() {
            Backend::Cpu => graphs::pieces(Piece::Copy, 4, count),
            Backend::Gpu => graphs::chain(count),
        };
        // Once for a card to wake up: compilers had the time before.
        bench.time(graph.clone(), Deadline::never()).await?;
        match bench.time(graph, Deadline::never()).await? {
            Sample::Took(timing) => *time = timing.seconds,
            Sample::LeftOut | Sample::Stopped => return Ok(None),
        }
    }
    let [one, many] = times;
    let dispatch = ((many - one) / (MANY - 1) as f64).max(0.02 * one / MANY as f64);
    Ok(Some((rounded((one - dispatch).max(0.1 * one)), rounded(dispatch))))
}

/// Sizes with their rates, until they take long.
async fn points(
    bench: &Bench<'_>,
    side: &SideProfile,
    pieces: &[(Piece, usize)],
    deadline: Deadline,
) -> Result<Option<Vec<(f64, f64)>>> {
    let mut points = Vec::new();
    let (mut seconds, mut before) = (0.0, 1.0);
    for &(piece, elements) in pieces {
        let amount = amount(piece, elements);
        let due = due(seconds, deadline);
        // A piece takes at most as many times longer as it is larger.
        if seconds > LONG || seconds * (amount / before) * RUNS > due.left() {
            break;
        }
        before = amount;
        // Several small ones a run, so that the time of the run itself matters less; but a GPU would overlap them.
        let times = match bench.side() {
            Backend::Gpu => 1,
            Backend::Cpu if seconds > LONG / 20.0 || elements > 1 << 20 => 2,
            Backend::Cpu => 8,
        };
        let timing = match bench.time(graphs::pieces(piece, elements, times), due).await? {
            Sample::Took(timing) => timing,
            Sample::LeftOut => break,
            Sample::Stopped => return Ok(None),
        };
        let whole = timing.seconds / times as f64;
        seconds = (timing.seconds - side.round_trip) / times as f64 - side.dispatch;
        seconds = seconds.max(0.02 * whole);
        push(&mut points, size(piece, &timing), seconds);
    }
    Ok(Some(points))
}

/// When the probe after one of so many seconds is due. The first is always made: a typical figure beside measured ones
/// would mislead.
fn due(seconds: f64, deadline: Deadline) -> Deadline {
    if seconds < CHEAP { Deadline::never() } else { deadline }
}

/// What a piece takes longer in proportion to.
fn amount(piece: Piece, elements: usize) -> f64 {
    match piece {
        Piece::Product { m, n, k, .. } => (m * n * k) as f64,
        _ => elements as f64,
    }
}

/// The unit that a curve of such pieces counts.
fn size(piece: Piece, timing: &Timing) -> f64 {
    if piece == Piece::Copy { timing.bytes } else { timing.flops }
}

/// Bytes with their rates between host and device, beside what else a run takes.
async fn transfers(
    bench: &Bench<'_>,
    side: &SideProfile,
    transfer: Transfer,
    deadline: Deadline,
) -> Result<Option<Vec<(f64, f64)>>> {
    let mut points = Vec::new();
    let (mut seconds, mut before) = (0.0, 1.0);
    for elements in TRANSFERS {
        let due = due(seconds, deadline);
        if seconds > LONG || seconds * (elements as f64 / before) * RUNS > due.left() {
            break;
        }
        before = elements as f64;
        let timing = match bench.time(transfer.graph(elements), due).await? {
            Sample::Took(timing) => timing,
            Sample::LeftOut => break,
            Sample::Stopped => return Ok(None),
        };
        let kernel = transfer.kernel(side, timing.moved);
        seconds = (timing.seconds - side.round_trip - kernel).max(0.05 * timing.seconds);
        push(&mut points, timing.moved, seconds);
    }
    Ok(Some(points))
}

/// A point of a curve, of numbers that are short to write.
fn push(points: &mut Vec<(f64, f64)>, size: f64, seconds: f64) {
    let rate = rounded(size / seconds);
    let ascends = points.last().is_none_or(|&(last, _)| last < size);
    if rate.is_finite() && rate > 0.0 && ascends {
        points.push((size, rate));
    }
}

/// To four digits.
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
