//! The scalar kernels of matrix products on a GPU: how fast each is, and on how many cores.

use super::graphs::{self, ProbePiece};
use super::probe::{Bench, Beside};
use super::probe_groups::Deadline;
use super::readings::{Attempts, Reading, rounded};
use crate::cost::{Backend, Ceilings, DeviceProfile, TileKind, TileRate};
use crate::error::Result;
use crate::plan::{Form, KnownTile, Plan, ProductForm, ProductSchedule, known_tiles, plan};

const MOST_CORES: u32 = 1024;
/// Elements of k in the probes, at most.
const LONGEST: usize = 1024;

pub(super) struct Gauge<'a, 'b> {
    bench: &'a Bench<'b>,
    known: Vec<KnownTile>,
}

impl<'a, 'b> Gauge<'a, 'b> {
    /// Measures no tiles on a software adapter, whose cores are the host's.
    pub fn new(bench: &'a Bench<'b>, software: bool) -> Self {
        let known = if software { Vec::new() } else { known_tiles(&bench.target.limits) };
        Self { bench, known }
    }

    pub fn plans(&self) -> impl Iterator<Item = Plan> {
        self.known.iter().filter_map(|tile| self.plan(tile, 1, 1, tile.bk * 8))
    }

    /// The number of cores, and the rates of all scalar tiles. If time runs out, or a rate is impossible, no rate is
    /// returned: measured rates are not to be compared with typical ones.
    pub async fn measure(
        &self,
        profile: &DeviceProfile,
        deadline: Deadline,
    ) -> Result<(u32, Vec<TileRate>)> {
        let Some(first) = self.known.iter().find(|tile| tile.together == 1) else {
            return Ok((profile.cores, Vec::new()));
        };
        let Some(cores) = self.cores(first, deadline).await? else {
            return Ok((profile.cores, Vec::new()));
        };
        let mut rates = Vec::new();
        for tile in &self.known {
            match self.rate(tile, cores, deadline).await? {
                Some(rate) => rates.push(rate),
                None => return Ok((cores, Vec::new())),
            }
        }
        Ok((cores, rates))
    }

    /// A product of `rows × columns` tiles, in one part.
    fn plan(&self, tile: &KnownTile, rows: usize, columns: usize, k: usize) -> Option<Plan> {
        let piece = ProbePiece::Product { m: tile.bm * rows, n: tile.bn * columns, k };
        let mut plan = plan(&graphs::pieces(piece, 0, 1)?, self.bench.target).ok()?;
        for step in &mut plan.steps {
            if let Form::Product(ProductForm { schedule, .. }) = &mut step.form {
                *schedule = ProductSchedule { layout: tile.layout, parts: 1 };
                step.scratch = None;
            }
        }
        Some(plan)
    }

    /// Seconds of the product alone; `None` if there is no time for it, or if no hardware is as fast.
    async fn seconds(
        &self,
        tile: &KnownTile,
        groups: u32,
        k: usize,
        deadline: Deadline,
    ) -> Result<Option<f64>> {
        // As square as can be: neighbours read the same rows and columns.
        let columns = f64::from(groups).sqrt().ceil() as usize;
        let rows = (groups as usize).div_ceil(columns);
        let Some(plan) = self.plan(tile, rows, columns, k) else { return Ok(None) };
        let ceiling = Ceilings::of(Backend::Gpu, 0).flops;
        let mut attempts = Attempts::new(ceiling);
        while attempts.are_too_few() {
            match self.bench.time_plan(plan.clone(), Beside::Empty, deadline).await? {
                Some(timing) => attempts.add(Reading::new(timing.flops, 1, &timing.difference)),
                None => break,
            }
        }
        let possible = attempts.best.filter(|reading| reading.is_possible(ceiling));
        if let (Some(refused), None) = (attempts.best, possible) {
            refused.report_refusal(Backend::Gpu, "tiles", ceiling);
        }
        Ok(possible.map(|reading| reading.seconds))
    }

    /// The number of workgroups that are done in the time of one, each with a core for itself. Workgroups that share a
    /// core take twice as long.
    async fn cores(&self, tile: &KnownTile, deadline: Deadline) -> Result<Option<u32>> {
        let k = LONGEST / 2;
        let Some(one) = self.seconds(tile, 1, k, deadline).await? else { return Ok(None) };
        let (mut fits, mut shares) = (1, MOST_CORES);
        while shares - fits > 1 + fits / 16 {
            // First by doubling.
            let groups = if shares == MOST_CORES { 2 * fits } else { fits.midpoint(shares) };
            if groups >= MOST_CORES {
                break;
            }
            match self.seconds(tile, groups, k, deadline).await? {
                Some(seconds) if seconds < 1.6 * one => fits = groups,
                Some(_) => shares = groups,
                None => return Ok(None),
            }
        }
        Ok(Some(fits))
    }

    /// The rates of a kernel: alone on a core, and with all cores full for two rounds.
    async fn rate(
        &self,
        tile: &KnownTile,
        cores: u32,
        deadline: Deadline,
    ) -> Result<Option<TileRate>> {
        // The first and last tiles of k take a while of their own.
        let steps = |k: usize| (k.div_ceil(tile.bk) + 2) as f64;
        let Some(alone) = self.seconds(tile, 1, LONGEST, deadline).await? else { return Ok(None) };
        let k = LONGEST / 2;
        let groups = 2 * cores * tile.together as u32;
        let Some(full) = self.seconds(tile, groups, k, deadline).await? else { return Ok(None) };
        let flops = 2.0 * (tile.bm * tile.bn * tile.bk * tile.together) as f64;
        let side = |side: usize| side as u32;
        Ok(Some(TileRate {
            kind: TileKind::Scalar,
            bm: side(tile.bm),
            bn: side(tile.bn),
            bk: side(tile.bk),
            rate: rounded(2.0 * steps(k) * flops / full),
            step: rounded(alone / steps(LONGEST)),
        }))
    }
}
