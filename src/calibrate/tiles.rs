//! The kernels of matrix products on a GPU: how fast each is, and on how many cores.

use super::Deadline;
use super::graphs::{self, Piece};
use super::probe::{Bench, Sample};
use super::sides::rounded;
use crate::cost::{DeviceProfile, TileKind, TileRate};
use crate::error::Result;
use crate::plan::{Form, KnownTile, MatMulForm, Plan, ProductSchedule, known_tiles, plan};

/// The most cores that are looked for.
const MOST_CORES: u32 = 1024;
/// Elements of k in the probes, at most.
const LONGEST: usize = 1024;

enum Seen<T> {
    Number(T),
    Nothing,
    Stop,
}

/// Measures tiles.
pub(super) struct Gauge<'a> {
    bench: &'a Bench<'a>,
    known: Vec<KnownTile>,
    /// Seconds of a run of one kernel that does nothing.
    round_trip: f64,
}

impl<'a> Gauge<'a> {
    /// Of no tiles where there is a software adapter, whose cores are the host's.
    pub fn new(bench: &'a Bench<'a>, profile: &DeviceProfile, software: bool) -> Self {
        let known = if software { Vec::new() } else { known_tiles().collect() };
        Self { bench, known, round_trip: profile.gpu.round_trip + profile.gpu.dispatch }
    }

    /// Plans with the kernels of all tiles.
    pub fn plans(&self) -> impl Iterator<Item = Plan> {
        self.known.iter().filter_map(|tile| self.plan(tile, 1, 1, tile.bk * 8))
    }

    /// Cores and rates; `None` if it was stopped. Without time for all rates there are none: measured ones are not to be
    /// compared with typical ones.
    pub async fn measure(
        &self,
        profile: &DeviceProfile,
        deadline: Deadline,
    ) -> Result<Option<(u32, Vec<TileRate>)>> {
        let Some(first) = self.known.iter().find(|tile| tile.together == 1) else {
            return Ok(Some((profile.cores, Vec::new())));
        };
        let cores = match self.cores(first, deadline).await? {
            Seen::Number(cores) => cores,
            Seen::Nothing => return Ok(Some((profile.cores, Vec::new()))),
            Seen::Stop => return Ok(None),
        };
        let mut rates = Vec::new();
        for tile in &self.known {
            match self.rate(tile, cores, deadline).await? {
                Seen::Number(rate) => rates.push(rate),
                Seen::Nothing => return Ok(Some((cores, Vec::new()))),
                Seen::Stop => return Ok(None),
            }
        }
        Ok(Some((cores, rates)))
    }

    /// A product of `rows × columns` tiles, in one part.
    fn plan(&self, tile: &KnownTile, rows: usize, columns: usize, k: usize) -> Option<Plan> {
        let piece = Piece::Product { m: tile.bm * rows, n: tile.bn * columns, k };
        let mut plan = plan(&graphs::pieces(piece, 0, 1)?, self.bench.target).ok()?;
        for step in &mut plan.steps {
            if let Form::MatMul(MatMulForm { schedule, .. }) = &mut step.form {
                *schedule = ProductSchedule { layout: tile.layout, parts: 1 };
                step.scratch = None;
            }
        }
        Some(plan)
    }

    /// Seconds of the product alone.
    async fn seconds(
        &self,
        tile: &KnownTile,
        groups: u32,
        k: usize,
        deadline: Deadline,
    ) -> Result<Seen<f64>> {
        // As square as can be: neighbours read the same rows and columns.
        let columns = f64::from(groups).sqrt().ceil() as usize;
        let rows = (groups as usize).div_ceil(columns);
        let Some(plan) = self.plan(tile, rows, columns, k) else { return Ok(Seen::Nothing) };
        Ok(match self.bench.time_plan(plan, deadline).await? {
            Sample::Took(timing) => {
                let whole = timing.seconds;
                Seen::Number((whole - self.round_trip).max(0.05 * whole))
            }
            Sample::LeftOut => Seen::Nothing,
            Sample::Stopped => Seen::Stop,
        })
    }

    /// How many workgroups, each with a core for itself, are done in the time of one: twice as long take those that
    /// share.
    async fn cores(&self, tile: &KnownTile, deadline: Deadline) -> Result<Seen<u32>> {
        let k = LONGEST / 2;
        let one = match self.seconds(tile, 1, k, deadline).await? {
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
            match self.seconds(tile, groups, k, deadline).await? {
                Seen::Number(seconds) if seconds < 1.6 * one => fits = groups,
                Seen::Number(_) => shares = groups,
                other => return Ok(other.without()),
            }
        }
        Ok(Seen::Number(fits))
    }

    /// The rates of a kernel: alone on a core, and with all cores full for two rounds.
    async fn rate(
        &self,
        tile: &KnownTile,
        cores: u32,
        deadline: Deadline,
    ) -> Result<Seen<TileRate>> {
        // The first and last tiles of k take a while of their own.
        let steps = |k: usize| (k.div_ceil(tile.bk) + 2) as f64;
        let alone = match self.seconds(tile, 1, LONGEST, deadline).await? {
            Seen::Number(seconds) => seconds,
            other => return Ok(other.without()),
        };
        let k = LONGEST / 2;
        let full = match self.seconds(tile, 2 * cores * tile.together as u32, k, deadline).await? {
            Seen::Number(seconds) => seconds,
            other => return Ok(other.without()),
        };
        let flops = 2.0 * (tile.bm * tile.bn * tile.bk * tile.together) as f64;
        let side = |side: usize| side as u32;
        Ok(Seen::Number(TileRate {
            kind: TileKind::Scalar,
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
