//! The choice of the kernel of a matrix product: the one that a model of a large GPU finds fastest.

use super::schedule::{ProductLayout, ProductSchedule, ProductSize, Strip};
use super::tile::candidates;
use crate::ops::Precision;
use crate::plan::forms::kernel_form::WORKGROUP_THREADS;
use crate::plan::target::Target;

/// The rows of a GPU's product up to which strips take it: they read the right operand as fast as it can be read, so that
/// matrix units are of no use.
pub(crate) const STRIP_ROWS: usize = 8;
const MOST_PARTS: usize = 32;

/// The fastest schedule, with `precision` limited to the units of the target.
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
    let candidates = candidates(precision, limits, size.windows);
    for candidate in candidates.iter().map(|candidate| candidate.as_measured(target)) {
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

/// The seconds of the product on a target whose tiles were measured; `None` if they were not.
pub(super) fn measured_seconds(
    size: &ProductSize,
    schedule: &ProductSchedule,
    target: &Target,
) -> Option<f64> {
    let Target { limits, profile, .. } = target;
    let precisions = [Precision::Exact, Precision::Half, Precision::Split];
    let all = |precision| candidates(precision, limits, size.windows);
    let mut known = precisions.into_iter().flat_map(all);
    let candidate = known.find(|candidate| candidate.layout == schedule.layout)?;
    if profile.tiles.is_empty() {
        return None;
    }
    let cores = profile.cores as usize;
    Some(candidate.as_measured(target).seconds(size, schedule.parts, cores))
}

/// At most `parts` of k, each of at least `unit`·8, none of them empty.
fn whole_parts(k: usize, parts: usize, unit: usize) -> usize {
    let parts = parts.min(k / (unit * 8)).max(1);
    let chunk = k.div_ceil(parts).next_multiple_of(unit).max(1);
    k.div_ceil(chunk).max(1)
}

fn strips(size: &ProductSize, cores: usize) -> ProductSchedule {
    // Threads that read one line of memory together; the others share k.
    let mut quads = 16;
    let groups = |quads: usize| size.n.div_ceil(quads * 4).saturating_mul(size.count);
    while quads > 4 && groups(quads) < 2 * cores {
        quads /= 2;
    }
    let slices = WORKGROUP_THREADS / quads;
    let wanted = cores.div_ceil(groups(quads).max(1)).min(MOST_PARTS);
    let strip = Strip { rows: size.m, quads, slices };
    let parts = whole_parts(size.k, wanted, strip.unit());
    ProductSchedule { layout: ProductLayout::Strips(strip), parts }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cost::{Backend, DeviceProfile, Limits, MatrixUnits};
    #[cfg(feature = "gpu")]
    use crate::cost::{TileKind, TileRate};
    use crate::plan::forms::product::schedule::Tile;
    #[cfg(feature = "gpu")]
    use crate::plan::forms::product::tile::{KnownTile, known_tiles};

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
    fn tiles_fit_the_memory_of_workgroups() {
        let units = Some(MatrixUnits { side: 16, subgroup: 32 });
        for workgroup_bytes in [2_000, 8_192, 16_384, 32_768, 49_152] {
            let limits = Limits { units, workgroup_bytes, ..Limits::webgpu() };
            let target = target(limits);
            for windows in [false, true] {
                let size = ProductSize { count: 1, m: 4096, n: 4096, k: 4096, windows };
                for precision in [Precision::Exact, Precision::Half, Precision::Split] {
                    let ProductSchedule { layout, .. } = schedule(&size, precision, &target);
                    let bytes = match layout {
                        ProductLayout::Units(tile) => tile.workgroup_bytes() as usize,
                        // A quad of padding for each element of k.
                        ProductLayout::Tiles(Tile { bm, bn, bk, stages, .. }) => {
                            stages * bk * (bm + bn + 4) * 4
                        }
                        ProductLayout::Strips(_) => panic!("{size:?} has many rows"),
                    };
                    assert!(bytes <= workgroup_bytes as usize, "{layout:?}: {bytes}");
                }
            }
        }
    }

    /// The target with these rates of all scalar tiles of the model, in GFLOP/s a core.
    #[cfg(feature = "gpu")]
    fn measured(rate: impl Fn(&KnownTile) -> f64) -> Target {
        let limits = Limits::webgpu();
        let side = |side: usize| side as u32;
        let tiles = known_tiles(&limits).into_iter().map(|tile| TileRate {
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
        for favourite in known_tiles(&Limits::webgpu()) {
            let target = measured(|tile| if tile.bm == favourite.bm { 100.0 } else { 1.0 });
            let schedule = schedule(&size, Precision::Exact, &target);
            let ProductLayout::Tiles(tile) = schedule.layout else {
                panic!("{schedule:?} is for many rows")
            };
            assert_eq!(tile.bm, favourite.bm);
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

    #[cfg(feature = "gpu")]
    #[test]
    fn products_over_windows_have_tiles_of_their_own_that_are_reckoned_in_proportion() {
        for (m, n, whole) in [(16, 900, false), (64, 3136, true), (1000, 10_000, true)] {
            let size = ProductSize { count: 16, m, n, k: 576, windows: true };
            let seconds = |times: f64| {
                let target = measured(|_| 100.0 * times);
                let schedule = schedule(&size, Precision::Exact, &target);
                measured_seconds(&size, &schedule, &target).expect("known in proportion")
            };
            let ratio = seconds(1.0) / seconds(4.0);
            // The time to add up parts does not depend on the tiles.
            assert!(ratio < 4.01 && ratio > if whole { 3.99 } else { 1.0 }, "{m} {n}: {ratio}");
        }
    }

    #[test]
    fn sizes_that_no_memory_holds_are_reckoned_with_too() {
        let side = 1 << 40;
        for m in [1, side] {
            let size = ProductSize { count: side, m, n: side, k: side, windows: false };
            assert!(schedule(&size, Precision::Exact, &target(Limits::webgpu())).parts > 0);
        }
    }

    #[test]
    fn what_was_not_measured_has_no_measured_time() {
        let target = target(Limits::webgpu());
        let size = ProductSize { count: 1, m: 64, n: 64, k: 64, windows: false };
        let schedule = schedule(&size, Precision::Exact, &target);
        assert_eq!(measured_seconds(&size, &schedule, &target), None);
    }
}
