//! Reductions of a slice with partial results side by side, so that their loops have no chain of
//! dependent operations. Inlined into functions that are compiled for several instruction sets.

use super::math;

/// Partial results at once.
pub(super) const LANES: usize = 16;

/// The greatest element; NaN if any is NaN, −∞ if there is none.
#[inline(always)]
pub(super) fn greatest(x: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for block in blocks.iter().chain([&padded(rest, f32::NEG_INFINITY)]) {
        for i in 0..LANES {
            most[i] = math::max(most[i], block[i]);
        }
    }
    folded(most, math::max)
}

/// Σ f(x), where f(`neutral`) is 0.
#[inline(always)]
pub(super) fn sum(x: &[f32], neutral: f32, f: impl Fn(f32) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for block in blocks {
        for i in 0..LANES {
            sums[i] += f(block[i]);
        }
    }
    let block = padded(rest, neutral);
    for i in 0..LANES {
        sums[i] += f(block[i]);
    }
    folded(sums, |a, b| a + b)
}

/// One result of the partial ones, as a tree.
#[inline(always)]
pub(super) fn folded<T: Copy>(mut partial: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            partial[i] = combine(partial[i], partial[i + half]);
        }
        half /= 2;
    }
    partial[0]
}

#[inline(always)]
fn padded(rest: &[f32], fill: f32) -> [f32; LANES] {
    let mut block = [fill; LANES];
    block[..rest.len()].copy_from_slice(rest);
    block
}
