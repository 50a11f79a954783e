//! Which kernel computes a matrix product: the one that a model of a large GPU finds fastest.

use super::Target;
use super::share::{ProductLayout, ProductSchedule, Strip, Tile, UnitTile};
use crate::cost::{
    DeviceProfile, Limits, MatrixUnits, REFERENCE_BANDWIDTH, REFERENCE_DISPATCH, TileKind, TileRate,
};
use crate::ops::Precision;

/// The sizes of a product, `count` of them in the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProductSize {
    pub count: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Whether the right operand is one of windows, whose positions take longer to find.
    pub windows: bool,
}

/// Rows up to which scalar units read the right operand as fast as it can be, so that matrix units are of no use.
pub(super) const STRIP_ROWS: usize = 8;
const MOST_PARTS: usize = 32;

/// A tile that the model knows.
#[derive(Clone, Copy)]
struct Candidate {
    layout: ProductLayout,
    bm: usize,
    bn: usize,
    bk: usize,
    /// Workgroups that share a core.
    together: usize,
    /// Multiplications and additions of a full core, in 1e9 a second.
    rate: f64,
    /// Microseconds that a workgroup takes for one step along k, alone on a core.
    step: f64,
}

/// The fastest schedule, with `precision` no more than what the target has units for.
pub(super) fn schedule(
    size: &ProductSize,
    precision: Precision,
    target: &Target,
) -> ProductSchedule {
    let Target { limits, profile, .. } = target;
    let cores = profile.cores as usize;
    if size.m <= STRIP_ROWS {
        return strips(size, cores);
    }
    let mut best = ProductSchedule::default();
    let mut least = f64::INFINITY;
    let candidates = match candidates(precision, limits) {
        scalar if size.windows && scalar[0].kind() == TileKind::Scalar => over_windows(),
        all => all,
    };
    for candidate in candidates.iter().map(|candidate| candidate.as_measured(profile)) {
        let mut parts = 1;
        while parts <= MOST_PARTS {
            let schedule = ProductSchedule {
                layout: candidate.layout,
                parts: whole_parts(size.k, parts, candidate.bk),
            };
            let seconds = candidate.seconds(size, schedule.parts, cores);
            if seconds < least {
                (best, least) = (schedule, seconds);
            }
            parts *= 2;
        }
    }
    best
}

/// What the product takes on a target whose tiles were measured; `None` where they were not.
pub(super) fn measured_seconds(
    size: &ProductSize,
    schedule: &ProductSchedule,
    target: &Target,
) -> Option<f64> {
    let Target { limits, profile, .. } = target;
    let precisions = [Precision::Exact, Precision::Half, Precision::Split];
    let mut known = precisions.into_iter().flat_map(|precision| candidates(precision, limits));
    let candidate = known.find(|candidate| candidate.layout == schedule.layout)?;
    if profile.tiles.is_empty() {
        return None;
    }
    let cores = profile.cores as usize;
    Some(candidate.as_measured(profile).seconds(size, schedule.parts, cores))
}

/// A tile of scalar units, for who measures it.
#[cfg(feature = "gpu")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownTile {
    pub layout: ProductLayout,
    pub bm: usize,
    pub bn: usize,
    pub bk: usize,
    /// Workgroups that share a core.
    pub together: usize,
}

/// The tiles of scalar units that the model chooses from. To compile and measure those of matrix units takes as long again.
#[cfg(feature = "gpu")]
pub(crate) fn known_tiles() -> impl Iterator<Item = KnownTile> {
    scalar().into_iter().map(|candidate| {
        let Candidate { layout, bm, bn, bk, together, .. } = candidate;
        KnownTile { layout, bm, bn, bk, together }
    })
}

/// The tiles of a precision that the target has units and memory for.
fn candidates(precision: Precision, limits: &Limits) -> Vec<Candidate> {
    match (precision, limits.units) {
        (Precision::Exact, _) | (_, None) => scalar(),
        (Precision::Half, Some(units)) => fitting(whole(units), limits),
        (Precision::Split, Some(units)) => fitting(split(units), limits),
    }
}

/// At most `parts` of k, each of at least `unit`·8, none of them empty.
fn whole_parts(k: usize, parts: usize, unit: usize) -> usize {
    let parts = parts.min(k / (unit * 8)).max(1);
    let chunk = k.div_ceil(parts).next_multiple_of(unit).max(1);
    k.div_ceil(chunk).max(1)
}

impl Candidate {
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
        profile
            .tiles
            .iter()
            .find(|tile| tile.kind == self.kind() && [tile.bm, tile.bn, tile.bk] == same)
    }

    /// With the rates that were measured on the target, if they were. If others were, with its own in proportion.
    fn as_measured(&self, profile: &DeviceProfile) -> Self {
        if let Some(tile) = self.measured(profile) {
            return Self { rate: tile.rate / 1e9, step: tile.step * 1e6, ..*self };
        }
        let [rate, step] = proportions(profile);
        Self { rate: self.rate * rate, step: self.step * step, ..*self }
    }

    /// How many of so many workgroups share a core. Rates of matrix units stand for full cores.
    fn sharing(&self, groups: f64, cores: usize) -> f64 {
        let full = self.together as f64;
        if self.kind() == TileKind::Scalar {
            (groups / cores as f64).ceil().clamp(1.0, full)
        } else {
            full
        }
    }

    /// Microseconds of a step along k, at the least: longer where operands do not fit the second cache, since only one
    /// tile is on its way meanwhile.
    fn least_step(&self, size: &ProductSize) -> f64 {
        const CACHED: usize = 32_000_000;
        const FROM_MEMORY: f64 = 0.8;
        let bytes = 4 * size.count * size.k * (size.m + size.n);
        let cached = size.windows || bytes <= CACHED || self.kind() != TileKind::Scalar;
        if cached { self.step } else { self.step.max(FROM_MEMORY) }
    }

    /// What the product takes: rounds of workgroups, each as long as the full tile takes.
    fn seconds(&self, size: &ProductSize, parts: usize, cores: usize) -> f64 {
        /// Of the memory's rate, what partial sums come to, which are written and read at once.
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
        let sums = 4.0 * (size.m * size.n) as f64 * size.count as f64;
        let moved = 2.0 * parts as f64 * sums;
        product + REFERENCE_DISPATCH + moved / (SHARE * REFERENCE_BANDWIDTH)
    }
}

/// Of rates and steps that were measured on the target to those of the model, in the geometric mean; 1 where none were.
fn proportions(profile: &DeviceProfile) -> [f64; 2] {
    let (mut logarithms, mut count) = ([0.0; 2], 0.0_f64);
    for candidate in scalar() {
        if let Some(tile) = candidate.measured(profile) {
            logarithms[0] += (tile.rate / 1e9 / candidate.rate).ln();
            logarithms[1] += (tile.step * 1e6 / candidate.step).ln();
            count += 1.0;
        }
    }
    logarithms.map(|sum| (sum / count.max(1.0)).exp())
}

fn scalar_tile(tile: [usize; 5], together: usize, rate: f64, step: f64) -> Candidate {
    let [bm, bn, bk, tm, tn] = tile;
    let layout = ProductLayout::Tiles(Tile { bm, bn, bk, tm, tn });
    Candidate { layout, bm, bn, bk, together, rate, step }
}

/// Tiles of which each thread finds one position in the windows at a time. Rates measured on an H200 (`cargo bench
/// --bench kernels`).
fn over_windows() -> Vec<Candidate> {
    vec![
        scalar_tile([64, 64, 8, 8, 4], 4, 285.0, 0.5),
        scalar_tile([32, 64, 8, 4, 4], 6, 172.0, 0.4),
        scalar_tile([16, 64, 16, 4, 4], 4, 130.0, 0.4),
    ]
}

/// Rates measured on an H200 (`cargo bench --bench kernels`).
fn scalar() -> Vec<Candidate> {
    let tile = scalar_tile;
    vec![
        tile([128, 128, 16, 8, 8], 1, 326.0, 1.3),
        tile([64, 64, 16, 8, 8], 2, 290.0, 1.1),
        // With less memory, more of them share a core, and steps are shorter.
        tile([64, 64, 8, 8, 4], 4, 285.0, 0.38),
        tile([32, 64, 16, 4, 8], 3, 170.0, 0.58),
        tile([32, 32, 32, 4, 4], 4, 150.0, 0.75),
        tile([16, 64, 16, 4, 4], 4, 130.0, 0.4),
    ]
}

fn unit_tile(tile: UnitTile, together: usize, rate: f64, step: f64) -> Candidate {
    let UnitTile { bm, bn, bk, .. } = tile;
    Candidate { layout: ProductLayout::Units(tile), bm, bn, bk, together, rate, step }
}

/// Rates measured on an H200 (`cargo bench --bench kernels`).
fn whole(units: MatrixUnits) -> Vec<Candidate> {
    let side = units.side as usize;
    let tile = |[bm, bn, bk, wm, wn]: [usize; 5]| {
        let bk = bk.max(side);
        UnitTile { bm, bn, bk, wm, wn, split: false, units }
    };
    vec![
        unit_tile(tile([128, 128, 32, 64, 64]), 2, 2080.0, 0.8),
        unit_tile(tile([64, 128, 32, 32, 64]), 2, 1500.0, 0.6),
        unit_tile(tile([64, 64, 64, 32, 32]), 2, 1300.0, 1.0),
    ]
}

/// Rates measured on an H200 (`cargo bench --bench kernels`).
fn split(units: MatrixUnits) -> Vec<Candidate> {
    let side = units.side as usize;
    let tile =
        |[bm, bn, wm, wn]: [usize; 4]| UnitTile { bm, bn, bk: side, wm, wn, split: true, units };
    vec![
        unit_tile(tile([128, 128, 64, 64]), 2, 700.0, 1.05),
        unit_tile(tile([64, 128, 32, 64]), 2, 570.0, 0.62),
    ]
}

/// Those that workgroup memory has room for; if there are none, the ones for scalar units.
fn fitting(mut candidates: Vec<Candidate>, limits: &Limits) -> Vec<Candidate> {
    candidates.retain(|candidate| match candidate.layout {
        ProductLayout::Units(tile) => tile.workgroup_bytes() <= u64::from(limits.workgroup_bytes),
        ProductLayout::Tiles(_) | ProductLayout::Strips(_) => true,
    });
    if candidates.is_empty() { scalar() } else { candidates }
}

fn strips(size: &ProductSize, cores: usize) -> ProductSchedule {
    const THREADS: usize = 256;
    // Threads that read one line of memory together; the others share k.
    let mut quads = 16;
    let groups = |quads: usize| size.n.div_ceil(quads * 4) * size.count;
    while quads > 4 && groups(quads) < 2 * cores {
        quads /= 2;
    }
    let slices = THREADS / quads;
    let wanted = cores.div_ceil(groups(quads).max(1)).min(MOST_PARTS);
    let strip = Strip { rows: size.m, quads, slices };
    let parts = whole_parts(size.k, wanted, strip.unit());
    ProductSchedule { layout: ProductLayout::Strips(strip), parts }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cost::Backend;

    fn target(limits: Limits) -> Target {
        let profile = Arc::new(DeviceProfile::typical(16));
        Target { backend: Backend::Gpu, limits, profile }
    }

    fn of(m: usize, n: usize, k: usize, precision: Precision) -> ProductSchedule {
        let units = Some(MatrixUnits { side: 16, subgroup: 32 });
        let limits = Limits { units, workgroup_bytes: 32_768, ..Limits::webgpu() };
        let size = ProductSize { count: 1, m, n, k, windows: false };
        schedule(&size, precision, &target(limits))
    }

    #[test]
    fn no_part_is_empty() {
        for k in [0, 1, 7, 64, 127, 128, 129, 1000, 4096, 4097] {
            for wanted in 1..40 {
                for unit in [4, 16, 64, 512] {
                    let parts = whole_parts(k, wanted, unit);
                    let chunk = k.div_ceil(parts).next_multiple_of(unit);
                    assert!(parts == 1 || (parts - 1) * chunk < k, "{k} {wanted} {unit}");
                    assert!(parts * chunk >= k);
                }
            }
        }
    }

    #[test]
    fn few_tiles_are_cut_along_k() {
        assert_eq!(of(4096, 4096, 4096, Precision::Exact).parts, 1);
        assert!(of(64, 4096, 4096, Precision::Exact).parts > 1);
        assert!(of(16, 64, 100_000, Precision::Exact).parts > 1);
    }

    #[test]
    fn small_tiles_share_cores() {
        let target = Target {
            profile: Arc::new(DeviceProfile { cores: 132, ..DeviceProfile::typical(16) }),
            ..target(Limits::webgpu())
        };
        let chosen = |count, n, k| {
            let size = ProductSize { count, m: 64, n, k, windows: false };
            let ProductSchedule { layout, parts } = schedule(&size, Precision::Exact, &target);
            let ProductLayout::Tiles(tile) = layout else { panic!("{size:?} has many rows") };
            (tile.bk, parts)
        };
        assert_eq!(chosen(8, 3136, 64), (8, 1));
        // From memory, where two of them on a core would wait.
        assert_eq!(chosen(1, 4096, 4096), (8, 8));
    }

    #[test]
    fn each_precision_has_its_kernel() {
        let layout = |m, precision| of(m, 4096, 4096, precision).layout;
        assert!(matches!(layout(4096, Precision::Exact), ProductLayout::Tiles(_)));
        assert!(matches!(layout(4096, Precision::Half), ProductLayout::Units(t) if !t.split));
        assert!(matches!(layout(4096, Precision::Split), ProductLayout::Units(t) if t.split));
        assert!(matches!(layout(1, Precision::Half), ProductLayout::Strips(s) if s.rows == 1));
    }

    #[test]
    fn little_workgroup_memory_means_scalar_units() {
        let units = Some(MatrixUnits { side: 16, subgroup: 32 });
        let limits = Limits { units, workgroup_bytes: 16_384, ..Limits::webgpu() };
        let target = target(limits);
        let size = ProductSize { count: 1, m: 4096, n: 4096, k: 4096, windows: false };
        for precision in [Precision::Half, Precision::Split] {
            let ProductSchedule { layout, .. } = schedule(&size, precision, &target);
            match layout {
                ProductLayout::Units(tile) => assert!(tile.workgroup_bytes() <= 16_384),
                ProductLayout::Tiles(_) => {}
                ProductLayout::Strips(_) => panic!("{size:?} has many rows"),
            }
        }
    }

    /// The target with these rates of all scalar tiles of the model, in Gflop/s a core.
    #[cfg(feature = "gpu")]
    fn measured(rate: impl Fn(&KnownTile) -> f64) -> Target {
        let limits = Limits::webgpu();
        let side = |side: usize| side as u32;
        let tiles = known_tiles().map(|tile| TileRate {
            kind: TileKind::Scalar,
            bm: side(tile.bm),
            bn: side(tile.bn),
            bk: side(tile.bk),
            rate: 1e9 * rate(&tile),
            step: 1e-9,
        });
        let mut profile = DeviceProfile::typical(16);
        profile.tiles = tiles.collect();
        Target { backend: Backend::Gpu, limits, profile: Arc::new(profile) }
    }

    #[cfg(feature = "gpu")]
    #[test]
    fn the_tile_that_was_measured_to_be_fastest_is_taken() {
        let size = ProductSize { count: 1, m: 4096, n: 4096, k: 4096, windows: false };
        for favourite in known_tiles() {
            let target = measured(|tile| if tile.bm == favourite.bm { 100.0 } else { 1.0 });
            let schedule = schedule(&size, Precision::Exact, &target);
            let ProductLayout::Tiles(Tile { bm, .. }) = schedule.layout else {
                panic!("{schedule:?} is for many rows")
            };
            assert_eq!(bm, favourite.bm);
            let seconds = measured_seconds(&size, &schedule, &target);
            // 2·4096³ flops by 128 cores.
            let least = 2.0 * 4096_f64.powi(3) / (128.0 * 100e9);
            assert!(seconds.is_some_and(|s| s >= least && s < 2.0 * least), "{seconds:?} {least}");
        }
    }

    #[cfg(feature = "gpu")]
    #[test]
    fn matrix_units_are_reckoned_with_in_proportion_to_what_was_measured() {
        let units = Some(MatrixUnits { side: 16, subgroup: 32 });
        let size = ProductSize { count: 1, m: 4096, n: 4096, k: 4096, windows: false };
        let seconds = |times: f64| {
            let mut target = measured(|_| 100.0 * times);
            target.limits = Limits { units, workgroup_bytes: 1 << 16, ..target.limits };
            let schedule = schedule(&size, Precision::Half, &target);
            assert!(matches!(schedule.layout, ProductLayout::Units(_)), "{schedule:?}");
            measured_seconds(&size, &schedule, &target).expect("known in proportion")
        };
        let ratio = seconds(1.0) / seconds(4.0);
        assert!((ratio - 4.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn fewer_cores_take_larger_tiles_and_fewer_parts() {
        let size = ProductSize { count: 1, m: 256, n: 256, k: 4096, windows: false };
        let chosen = |cores| {
            let mut target = target(Limits::webgpu());
            Arc::make_mut(&mut target.profile).cores = cores;
            let schedule = schedule(&size, Precision::Exact, &target);
            let ProductLayout::Tiles(tile) = schedule.layout else { panic!("{schedule:?}") };
            (tile.bm * tile.bn) as f64 / schedule.parts as f64
        };
        assert!(chosen(4) > chosen(128), "{} {}", chosen(4), chosen(128));
    }

    #[test]
    fn what_was_not_measured_has_no_measured_time() {
        let target = target(Limits::webgpu());
        let size = ProductSize { count: 1, m: 64, n: 64, k: 64, windows: false };
        let schedule = schedule(&size, Precision::Exact, &target);
        assert_eq!(measured_seconds(&size, &schedule, &target), None);
    }
}
