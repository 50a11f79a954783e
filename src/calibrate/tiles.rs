//! The kernels of matrix products on a GPU: how fast each is, and on how many cores.

use super::Deadline;
use super::graphs::{self, Piece};
use super::probe::{Bench, Sample};
use super::sides::rounded;
use crate::cost::{DeviceProfile, TileKind, TileRate};
use crate::error::Result;
use crate::ops::Precision;
use crate::plan::{Form, KnownTile, Plan, ProductSchedule, known_tiles, plan};

/// The most cores that are looked for.
const MOST_CORES: u32 = 1024;
/// Elements of k in the probes, at most.
const LONGEST: usize = 2048;

/// Cores and rates; `None` if it was stopped. Without time for all rates there are none: measured ones are not to be
/// compared with typical ones.
pub(super) async fn measure(
    bench: &Bench<'_>,
    profile: &DeviceProfile,
    deadline: Deadline,
) -> Result<Option<(u32, Vec<TileRate>)>> {
    let round_trip = profile.gpu.round_trip + profile.gpu.dispatch;
    let gauge = Gauge { bench, deadline, round_trip };
    let known = known_tiles(&bench.target.limits);
    let Some(&first) = known.iter().find(|tile| tile.together == 1) else {
        return Ok(Some((profile.cores, Vec::new())));
    };
    bench
        .compile_plans(known.iter().filter_map(|tile| gauge.plan(tile, 1, 1, tile.bk * 8)))
        .await?;
    let cores = match gauge.cores(&first).await? {
        Seen::Number(cores) => cores,
        Seen::Nothing => return Ok(Some((profile.cores, Vec::new()))),
        Seen::Stop => return Ok(None),
    };
    let mut rates = Vec::new();
    for tile in &known {
        match gauge.rate(tile, cores).await? {
            Seen::Number(rate) => rates.push(rate),
            Seen::Nothing => return Ok(Some((cores, Vec::new()))),
            Seen::Stop => return Ok(None),
        }
    }
    Ok(Some((cores, rates)))
}

enum Seen<T> {
    Number(T),
    Nothing,
    Stop,
}

struct Gauge<'a> {
    bench: &'a Bench<'a>,
    deadline: Deadline,
    /// Seconds of a run of one kernel that does nothing.
    round_trip: f64,
}

impl Gauge<'_> {
    /// A product of `rows × columns` tiles, in one part.
    fn plan(&self, tile: &KnownTile, rows: usize, columns: usize, k: usize) -> Option<Plan> {
        let precision = match tile.kind {
            TileKind::Scalar => Precision::Exact,
            TileKind::Half => Precision::Half,
            TileKind::Split => Precision::Split,
        };
        let piece = Piece::Product { m: tile.bm * rows, n: tile.bn * columns, k, precision };
        let mut plan = plan(&graphs::pieces(piece, 0, 1)?, self.bench.target).ok()?;
        for step in &mut plan.steps {
            if let Form::MatMul { schedule, .. } = &mut step.form {
                *schedule = ProductSchedule { layout: tile.layout, parts: 1 };
                step.scratch = None;
            }
        }
        Some(plan)
    }

    /// Seconds of the product alone.
    async fn seconds(&self, tile: &KnownTile, groups: u32, k: usize) -> Result<Seen<f64>> {
        // As square as can be: neighbours read the same rows and columns.
        let columns = f64::from(groups).sqrt().ceil() as usize;
        let rows = (groups as usize).div_ceil(columns);
        let Some(plan) = self.plan(tile, rows, columns, k) else { return Ok(Seen::Nothing) };
        // Split products have their operands scaled first.
        let others = plan.steps.iter().filter(|step| !matches!(step.form, Form::MatMul { .. }));
        let others: f64 = others.map(|step| step.cost.gpu_seconds).sum();
        Ok(match self.bench.time_plan(plan, self.deadline).await? {
            Sample::Took(timing) => {
                let whole = timing.seconds;
                Seen::Number((whole - self.round_trip - others).max(0.05 * whole))
            }
            Sample::LeftOut => Seen::Nothing,
            Sample::Stopped => Seen::Stop,
        })
    }

    /// How many workgroups, each with a core for itself, are done in the time of one: twice as long take those that
    /// share.
    async fn cores(&self, tile: &KnownTile) -> Result<Seen<u32>> {
        let k = LONGEST / 2;
        let one = match self.seconds(tile, 1, k).await? {
            Seen::Number(seconds) => seconds,
            other => return Ok(other.without()),
        };
        let (mut fits, mut shares) = (1, MOST_CORES);
        while shares - fits > 1 + fits / 16 {
            // First by doubling.
            let groups = if shares == MOST_CORES { 2 * fits } else { fits.midpoint(shares) };
            if groups >= MOST_CORES {
                break;
            }
            match self.seconds(tile, groups, k).await? {
                Seen::Number(seconds) if seconds < 1.6 * one => fits = groups,
                Seen::Number(_) => shares = groups,
                other => return Ok(other.without()),
            }
        }
        Ok(Seen::Number(fits))
    }

    /// The rates of a kernel: alone on a core, and with all cores full for two rounds.
    async fn rate(&self, tile: &KnownTile, cores: u32) -> Result<Seen<TileRate>> {
        // The first and last tiles of k take a while of their own.
        let steps = |k: usize| (k.div_ceil(tile.bk) + 2) as f64;
        let alone = match self.seconds(tile, 1, LONGEST).await? {
            Seen::Number(seconds) => seconds,
            other => return Ok(other.without()),
        };
        let k = LONGEST / 2;
        let full = match self.seconds(tile, 2 * cores * tile.together as u32, k).await? {
            Seen::Number(seconds) => seconds,
            other => return Ok(other.without()),
        };
        let flops = 2.0 * (tile.bm * tile.bn * tile.bk * tile.together) as f64;
        let side = |side: usize| side as u32;
        Ok(Seen::Number(TileRate {
            kind: tile.kind,
            bm: side(tile.bm),
            bn: side(tile.bn),
            bk: side(tile.bk),
            rate: rounded(2.0 * steps(k) * flops / full),
            step: rounded(alone / steps(LONGEST)),
        }))
    }
}

impl<T> Seen<T> {
    /// Nothing seen, for another kind of number.
    fn without<U>(self) -> Seen<U> {
        match self {
            Self::Stop => Seen::Stop,
            Self::Number(_) | Self::Nothing => Seen::Nothing,
        }
    }
}
