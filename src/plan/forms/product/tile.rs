//! The tiles of matrix products that the model chooses from, and their predicted times.

use super::schedule::{ProductLayout, ProductSize, Tile, UnitTile};
use crate::cost::{
    DeviceProfile, Limits, MatrixUnits, REFERENCE_BANDWIDTH, REFERENCE_DISPATCH, TileKind, TileRate,
};
use crate::ops::Precision;
use crate::plan::target::Target;

/// A tile that the model knows, and its typical rates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownTile {
    pub layout: ProductLayout,
    pub bm: usize,
    pub bn: usize,
    pub bk: usize,
    /// Workgroups that share a core.
    pub together: usize,
    /// Multiplications and additions of a full core, in 1e9 a second.
    rate: f64,
    /// Microseconds that a workgroup takes for one step along k, alone on a core.
    step: f64,
    /// The same at the least, where operands come from memory: only one tile is on its way meanwhile.
    far_step: f64,
    /// True if the right operand is one of windows, whose positions take longer to find.
    windows: bool,
}

/// The far step of the reference card (H200, fitted to products of 64 rows), which [`proportions`] scales to 0.8 there.
const FAR_STEP: f64 = 1.0;

/// The tiles of a precision that the target has units and memory for, of windows where the right operand is one of
/// them.
pub(super) fn candidates(precision: Precision, limits: &Limits, windows: bool) -> Vec<KnownTile> {
    let on_units = match (precision, limits.units) {
        (Precision::Exact, _) | (_, None) => Vec::new(),
        (Precision::Half, Some(units)) => fitting(whole(units), limits),
        (Precision::Split, Some(units)) => fitting(split(units), limits),
    };
    match on_units.is_empty() {
        false => on_units,
        true if windows => over_windows(limits),
        true => known_tiles(limits),
    }
}

impl KnownTile {
    fn kind(&self) -> TileKind {
        match self.layout {
            ProductLayout::Units(UnitTile { split: true, .. }) => TileKind::Split,
            ProductLayout::Units(_) => TileKind::Half,
            ProductLayout::Tiles(_) | ProductLayout::Strips(_) => TileKind::Scalar,
        }
    }

    /// The rates that were measured on the target.
    fn measured<'a>(&self, profile: &'a DeviceProfile) -> Option<&'a TileRate> {
        let same = [self.bm, self.bn, self.bk].map(|side| side as u32);
        let is_same =
            |tile: &&TileRate| tile.kind == self.kind() && [tile.bm, tile.bn, tile.bk] == same;
        profile.tiles.iter().find(is_same).filter(|_| !self.windows)
    }

    /// The tile with the rates that were measured on the target. If only other tiles were measured, its own rates are
    /// scaled as theirs are.
    pub fn as_measured(&self, Target { limits, profile, .. }: &Target) -> Self {
        let [rate, step] = proportions(profile, limits);
        let far_step = self.far_step * step;
        let [rate, step] = match self.measured(profile) {
            Some(tile) => [tile.rate / 1e9, tile.step * 1e6],
            None => [self.rate * rate, self.step * step],
        };
        Self { rate, step, far_step, ..*self }
    }

    /// The number of workgroups, of so many in all, that share a core. Rates of matrix units stand for full cores.
    fn sharing(&self, groups: f64, cores: usize) -> f64 {
        let full = self.together as f64;
        if self.kind() == TileKind::Scalar {
            (groups / cores as f64).ceil().clamp(1.0, full)
        } else {
            full
        }
    }

    /// Microseconds of a step along k, at the least: longer where operands do not fit the second cache.
    fn least_step(&self, size: &ProductSize) -> f64 {
        /// Bytes (H200: 50 MB, of which a core reaches the nearer part at full rate).
        const CACHED: f64 = 32e6;
        let [count, m, n, k] = [size.count, size.m, size.n, size.k].map(|size| size as f64);
        let cached = size.windows || 4.0 * count * k * (m + n) <= CACHED;
        let hidden = self.kind() != TileKind::Scalar;
        if cached || hidden { self.step } else { self.step.max(self.far_step) }
    }

    /// The seconds of the product: rounds of workgroups, each as long as the full tile takes.
    pub fn seconds(&self, size: &ProductSize, parts: usize, cores: usize) -> f64 {
        /// The part of the memory's rate that partial sums, which are written and read at once, reach.
        const SHARE: f64 = 0.5;
        let tiles = size.m.div_ceil(self.bm) as f64 * size.n.div_ceil(self.bn) as f64;
        let groups = tiles * size.count as f64 * parts as f64;
        let rounds = (groups / (cores * self.together) as f64).ceil();
        let steps = size.k.div_ceil(parts).div_ceil(self.bk) + 2;
        let flops = 2.0 * (self.bm * self.bn * self.bk) as f64 * self.sharing(groups, cores);
        let step = (flops / (self.rate * 1e9)).max(self.least_step(size) * 1e-6);
        let product = rounds * steps as f64 * step;
        if parts == 1 {
            return product;
        }
        let sums = 4.0 * size.m as f64 * size.n as f64 * size.count as f64;
        let moved = 2.0 * parts as f64 * sums;
        product + REFERENCE_DISPATCH + moved / (SHARE * REFERENCE_BANDWIDTH)
    }
}

/// Rates and steps measured on the target over those of the model, in the geometric mean; 1 if none were measured.
fn proportions(profile: &DeviceProfile, limits: &Limits) -> [f64; 2] {
    let (mut logarithms, mut count) = ([0.0; 2], 0.0_f64);
    for candidate in known_tiles(limits) {
        if let Some(tile) = candidate.measured(profile) {
            logarithms[0] += (tile.rate / 1e9 / candidate.rate).ln();
            logarithms[1] += (tile.step * 1e6 / candidate.step).ln();
            count += 1.0;
        }
    }
    logarithms.map(|sum| (sum / count.max(1.0)).exp())
}

/// A tile of such sides, of so many workgroups a core, with its rate and the time of its step.
fn known(
    layout: ProductLayout,
    [bm, bn, bk]: [usize; 3],
    (together, rate, step): (usize, f64, f64),
) -> KnownTile {
    KnownTile { layout, bm, bn, bk, together, rate, step, far_step: FAR_STEP, windows: false }
}

/// The tiles of scalar units, fitted to the memory of workgroups.
fn on_threads<const N: usize>(
    tiles: [([usize; 5], (usize, f64, f64)); N],
    limits: &Limits,
) -> Vec<KnownTile> {
    let tile = |(sides, (together, rate, step)): ([usize; 5], (usize, f64, f64))| {
        let tile = Tile::fitting(sides, limits.workgroup_bytes as usize);
        // Steps of less of k take less time each.
        let step = step * tile.bk as f64 / sides[2] as f64;
        known(ProductLayout::Tiles(tile), [tile.bm, tile.bn, tile.bk], (together, rate, step))
    };
    tiles.map(tile).into()
}

/// Tiles of which each thread finds one position in the windows at a time. Rates measured on an H200 (`cargo bench
/// --bench kernels`).
fn over_windows(limits: &Limits) -> Vec<KnownTile> {
    let tiles = [
        ([64, 64, 8, 8, 4], (4, 285.0, 0.5)),
        ([32, 64, 8, 4, 4], (6, 172.0, 0.4)),
        ([16, 64, 16, 4, 4], (4, 130.0, 0.4)),
    ];
    let tiles = on_threads(tiles, limits).into_iter();
    tiles.map(|tile| KnownTile { windows: true, ..tile }).collect()
}

/// The tiles of scalar units. Rates measured on an H200 (`cargo bench --bench kernels`). Calibration measures them on the
/// target; to compile and measure those of matrix units takes as long again.
pub(crate) fn known_tiles(limits: &Limits) -> Vec<KnownTile> {
    let tiles = [
        ([128, 128, 16, 8, 8], (1, 326.0, 1.3)),
        ([64, 64, 16, 8, 8], (2, 290.0, 1.1)),
        // With less memory, more of them share a core, and steps are shorter.
        ([64, 64, 8, 8, 4], (4, 285.0, 0.38)),
        ([32, 64, 16, 4, 8], (3, 170.0, 0.58)),
        ([32, 32, 32, 4, 4], (4, 150.0, 0.75)),
        ([16, 64, 16, 4, 4], (4, 130.0, 0.4)),
    ];
    on_threads(tiles, limits)
}

/// Rates measured on an H200 (`cargo bench --bench kernels`).
fn whole(units: MatrixUnits) -> Vec<KnownTile> {
    let tiles = [
        ([128, 128, 32, 64, 64], (2, 2080.0, 0.8)),
        ([64, 128, 32, 32, 64], (2, 1500.0, 0.6)),
        ([64, 64, 64, 32, 32], (2, 1300.0, 1.0)),
    ];
    let tile = |([bm, bn, bk, wm, wn], rates): ([usize; 5], _)| {
        let bk = bk.max(units.side as usize);
        let tile = UnitTile { bm, bn, bk, wm, wn, split: false, units };
        known(ProductLayout::Units(tile), [bm, bn, bk], rates)
    };
    tiles.map(tile).into()
}

/// Rates measured on an H200 (`cargo bench --bench kernels`).
fn split(units: MatrixUnits) -> Vec<KnownTile> {
    let tiles = [([128, 128, 64, 64], (2, 700.0, 1.05)), ([64, 128, 32, 64], (2, 570.0, 0.62))];
    let bk = units.side as usize;
    let tile = |([bm, bn, wm, wn], rates): ([usize; 4], _)| {
        let tile = UnitTile { bm, bn, bk, wm, wn, split: true, units };
        known(ProductLayout::Units(tile), [bm, bn, bk], rates)
    };
    tiles.map(tile).into()
}

/// The tiles that workgroup memory has room for.
fn fitting(mut candidates: Vec<KnownTile>, limits: &Limits) -> Vec<KnownTile> {
    candidates.retain(|candidate| match candidate.layout {
        ProductLayout::Units(tile) => tile.workgroup_bytes() <= u64::from(limits.workgroup_bytes),
        ProductLayout::Tiles(_) | ProductLayout::Strips(_) => true,
    });
    candidates
}
