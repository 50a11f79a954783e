//! Reductions of a slice with partial results side by side, so that their loops have no chain of
//! dependent operations. Inlined into functions that are compiled for several instruction sets.

use super::math;

/// Partial results of a short slice.
const FEW: usize = 16;
/// Partial results of a long slice: so many that the compiler keeps the loop over them, of which it makes vectors
/// of any width; a short one it unrolls first, and then finds only narrow vectors in it.
const MANY: usize = 128;

/// `x` combined in any order. `step` and `merge` must be so simple that they are inlined.
#[inline(always)]
pub(super) fn fold<T: Copy, S: Copy>(
    x: &[T],
    empty: S,
    step: impl Fn(S, T) -> S,
    merge: impl Fn(S, S) -> S,
) -> S {
    if x.len() < 2 * MANY {
        fold_by::<FEW, T, S>(x, empty, step, merge)
    } else {
        fold_by::<MANY, T, S>(x, empty, step, merge)
    }
}

#[inline(always)]
fn fold_by<const N: usize, T: Copy, S: Copy>(
    x: &[T],
    empty: S,
    step: impl Fn(S, T) -> S,
    merge: impl Fn(S, S) -> S,
) -> S {
    let mut partial = [empty; N];
    let (blocks, rest) = x.as_chunks::<N>();
    for block in blocks {
        for i in 0..N {
            partial[i] = step(partial[i], block[i]);
        }
    }
    for (partial, &x) in partial.iter_mut().zip(rest) {
        *partial = step(*partial, x);
    }
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            partial[i] = merge(partial[i], partial[i + half]);
        }
        half /= 2;
    }
    partial[0]
}

/// The greatest element; NaN if any is NaN, −∞ if there is none.
#[inline(always)]
pub(super) fn greatest(x: &[f32]) -> f32 {
    fold(x, f32::NEG_INFINITY, math::max, math::max)
}

/// Σ f(x).
#[inline(always)]
pub(super) fn sum(x: &[f32], f: impl Fn(f32) -> f64) -> f64 {
    fold(x, 0.0, |sum, x| sum + f(x), |a, b| a + b)
}

/// Σ e^(x − `shift`).
#[inline(always)]
pub(super) fn sum_of_exps(x: &[f32], shift: f32) -> f64 {
    const BLOCK: usize = 512;
    let mut exps = [0.0; BLOCK];
    let mut total = 0.0;
    for x in x.chunks(BLOCK) {
        let exps = &mut exps[..x.len()];
        for (exp, &x) in exps.iter_mut().zip(x) {
            *exp = math::exp(x - shift);
        }
        total += sum(exps, f64::from);
    }
    total
}
