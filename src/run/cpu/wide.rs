//! Reductions of a slice with partial results side by side, so that their loops have no chain of
//! dependent operations. Inlined into functions that are compiled for several instruction sets.

use super::{math, prefetch};

/// Partial results of a short slice.
pub(super) const FEW: usize = 16;
/// Partial results of a long slice: so many that the compiler keeps the loop over them, of which it makes vectors
/// of any width; a short one it unrolls first, and then finds only narrow vectors in it.
pub(super) const MANY: usize = 128;

/// `N` partial results.
pub(super) struct Partial<S, const N: usize>([S; N]);

impl<S: Copy, const N: usize> Partial<S, N> {
    #[inline(always)]
    pub fn new(empty: S) -> Self {
        Self([empty; N])
    }

    /// Takes elements, a multiple of `N` except for the last of all. `step` must be so simple that it is inlined.
    #[inline(always)]
    pub fn take<T: Copy>(&mut self, x: &[T], step: impl Fn(S, T) -> S) {
        let partial = &mut self.0;
        let (blocks, rest) = x.as_chunks::<N>();
        for block in blocks {
            for i in 0..N {
                partial[i] = step(partial[i], block[i]);
            }
        }
        for (partial, &x) in partial.iter_mut().zip(rest) {
            *partial = step(*partial, x);
        }
    }

    /// As [`take`](Self::take), of memory that is read in order: hints that what follows will be read. Sums of 64e6
    /// elements by 16 threads took 0.92 ms without and 0.83 with.
    #[inline(always)]
    pub fn take_on<T: Copy>(&mut self, x: &[T], step: impl Fn(S, T) -> S) {
        let (blocks, rest) = x.as_chunks::<N>();
        for block in blocks {
            prefetch::read_on(block);
            self.take(block, &step);
        }
        self.take(rest, step);
    }

    /// One of all.
    #[inline(always)]
    pub fn merged(self, merge: impl Fn(S, S) -> S) -> S {
        let mut partial = self.0;
        let mut half = N / 2;
        while half > 0 {
            for i in 0..half {
                partial[i] = merge(partial[i], partial[i + half]);
            }
            half /= 2;
        }
        partial[0]
    }
}

/// `x` combined in any order. `step` and `merge` must be so simple that they are inlined.
#[inline(always)]
pub(super) fn fold<T: Copy, S: Copy>(
    x: &[T],
    empty: S,
    step: impl Fn(S, T) -> S,
    merge: impl Fn(S, S) -> S,
) -> S {
    if x.len() < 2 * MANY {
        let mut partial = Partial::<S, FEW>::new(empty);
        partial.take(x, step);
        partial.merged(merge)
    } else {
        let mut partial = Partial::<S, MANY>::new(empty);
        partial.take_on(x, step);
        partial.merged(merge)
    }
}

/// The greatest element that is a number; −∞ if there is none.
#[inline(always)]
pub(super) fn greatest_number(x: &[f32]) -> f32 {
    let greater = |x: f32, y: f32| if y > x { y } else { x };
    fold(x, f32::NEG_INFINITY, greater, greater)
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

/// Σ e^(x − `shift`), where no x is above `shift`.
#[inline(always)]
pub(super) fn sum_of_exps(x: &[f32], shift: f32) -> f64 {
    const BLOCK: usize = 512;
    let mut exps = [0.0; BLOCK];
    let mut total = 0.0;
    for x in x.chunks(BLOCK) {
        let exps = &mut exps[..x.len()];
        for (exp, &x) in exps.iter_mut().zip(x) {
            *exp = math::exp_nonpositive(x - shift);
        }
        total += sum(exps, f64::from);
    }
    total
}
