//! Reductions of a slice with partial results side by side, so that their loops have no chain of dependent operations.
//! They are inlined into functions that are compiled for several instruction sets.

use super::math;
use crate::exec::cpu::vectors::prefetch;

/// Number of partial results of a short slice.
pub(crate) const FEW: usize = 16;
/// Number of partial results of a long slice. With so many, the compiler keeps the loop over them and makes vectors of
/// any width of it. A shorter loop is unrolled first, and then yields only narrow vectors.
pub(crate) const MANY: usize = 128;

/// `N` partial results. They begin a line of the cache, as wide loads and stores have to for full speed.
#[repr(align(64))]
pub(crate) struct Partial<S, const N: usize>([S; N]);

impl<S: Copy, const N: usize> Partial<S, N> {
    #[inline(always)]
    pub fn new(empty: S) -> Self {
        Self([empty; N])
    }

    /// Takes a multiple of `N` elements, or the last elements of all. `step` must be so simple that it is inlined.
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

    /// As [`take`](Self::take), with hints that the memory after these elements will be read. Sums of 64e6 elements by
    /// 16 threads took 0.92 ms without hints and 0.83 ms with them.
    #[inline(always)]
    pub fn take_prefetching<T: Copy>(&mut self, x: &[T], step: impl Fn(S, T) -> S) {
        let (blocks, rest) = x.as_chunks::<N>();
        for block in blocks {
            prefetch::read_on(block);
            self.take(block, &step);
        }
        self.take(rest, step);
    }

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

/// Combines `x` in any order. `step` and `merge` must be so simple that they are inlined.
#[inline(always)]
pub(crate) fn fold<T: Copy, S: Copy>(
    x: &[T],
    empty: S,
    step: impl Fn(S, T) -> S,
    merge: impl Fn(S, S) -> S,
) -> S {
    combined::<true, T, S>(x, empty, step, merge)
}

/// As [`fold`], with hints that the memory after long slices will be read if `HINTS`.
#[inline(always)]
fn combined<const HINTS: bool, T: Copy, S: Copy>(
    x: &[T],
    empty: S,
    step: impl Fn(S, T) -> S,
    merge: impl Fn(S, S) -> S,
) -> S {
    if x.len() < 2 * MANY {
        let mut partial = Partial::<S, FEW>::new(empty);
        partial.take(x, step);
        return partial.merged(merge);
    }
    let mut partial = Partial::<S, MANY>::new(empty);
    match HINTS {
        true => partial.take_prefetching(x, step),
        false => partial.take(x, step),
    }
    partial.merged(merge)
}

/// The greatest element that is a number; −∞ if there is none. A row is read again from the cache, and hints for the
/// row after it make a softmax a sixth slower.
#[inline(always)]
pub(crate) fn greatest_number(x: &[f32]) -> f32 {
    let greater = |x: f32, y: f32| if y > x { y } else { x };
    combined::<false, _, _>(x, f32::NEG_INFINITY, greater, greater)
}

#[inline(always)]
pub(crate) fn sum(x: &[f32], f: impl Fn(f32) -> f64) -> f64 {
    fold(x, 0.0, |sum, x| sum + f(x), |a, b| a + b)
}

/// Number of elements that are summed in single precision before their sums are added in double precision.
pub(crate) const F32_TERMS: usize = 8 * MANY;

/// Sums to which `step` adds the terms of each element: in single precision over [`F32_TERMS`] elements, in double
/// precision over these sums. A term goes through 7 additions to its partial sum, and 7 more that merge partial sums. A
/// sum is therefore off by at most 14·2⁻²⁴ of the sum of its terms' magnitudes.
#[inline(always)]
fn mixed_sums<const K: usize>(x: &[f32], step: impl Fn([f32; K], f32) -> [f32; K]) -> [f64; K] {
    let mut total = [0.0; K];
    for x in x.chunks(F32_TERMS) {
        let mut sums = [[0.0_f32; MANY]; K];
        let (blocks, rest) = x.as_chunks::<MANY>();
        for block in blocks {
            for (i, &x) in block.iter().enumerate() {
                add(&mut sums, i, x, &step);
            }
        }
        for (i, &x) in rest.iter().enumerate() {
            add(&mut sums, i, x, &step);
        }
        for (total, sums) in total.iter_mut().zip(sums) {
            *total += f64::from(Partial(sums).merged(|a, b| a + b));
        }
    }
    total
}

/// Adds the terms of `x` to the partial sums at `i`.
#[inline(always)]
fn add<const K: usize>(
    sums: &mut [[f32; MANY]; K],
    i: usize,
    x: f32,
    step: &impl Fn([f32; K], f32) -> [f32; K],
) {
    let mut at = [0.0; K];
    for k in 0..K {
        at[k] = sums[k][i];
    }
    at = step(at, x);
    for k in 0..K {
        sums[k][i] = at[k];
    }
}

/// Σ`term(x)`, off by at most 14·2⁻²⁴ of the sum of its terms' magnitudes.
#[inline(always)]
pub(crate) fn mixed_sum(x: &[f32], term: impl Fn(f32) -> f32) -> f64 {
    let [sum] = mixed_sums(x, |[sum], x| [sum + term(x)]);
    sum
}

/// Σx², off by at most 15·2⁻²⁴ of itself.
#[inline(always)]
pub(crate) fn mixed_squares<const FMA: bool>(x: &[f32]) -> f64 {
    let [sum] = mixed_sums(x, |[sum], x| [math::fma::<FMA>(x, x, sum)]);
    sum
}

/// Writes e^(x − `shift`) of each element to `to`, which is as long, and returns the sum as [`mixed_sum`] does. No x is
/// above `shift`. Terms are read again for the sum: a loop that computes and adds up so many at once has more vectors
/// than registers.
#[inline(always)]
pub(crate) fn written_exps<const FMA: bool>(x: &[f32], to: &mut [f32], shift: f32) -> f64 {
    let mut total = 0.0;
    for (x, to) in x.chunks(F32_TERMS).zip(to.chunks_mut(F32_TERMS)) {
        exp_below::<FMA>(x, shift, to);
        total += mixed_sum(to, |term| term);
    }
    total
}

/// Computes `to` = e^(x − `shift`) for x of at most `shift`.
#[inline(always)]
fn exp_below<const FMA: bool>(x: &[f32], shift: f32, to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if crate::exec::cpu::vectors::has_avx512() {
        // SAFETY: the processor has the instructions.
        return unsafe { crate::exec::cpu::vectors::exponential::exp_below_avx512(x, shift, to) };
    }
    for (to, &x) in to.iter_mut().zip(x) {
        *to = math::exp_nonpositive::<FMA>(x - shift);
    }
}

/// Σ(x − `shift`) and Σ(x − `shift`)², off by at most 15 and 17 times 2⁻²⁴ of the sums of their terms' magnitudes.
#[inline(always)]
pub(crate) fn moments<const FMA: bool>(x: &[f32], shift: f32) -> [f64; 2] {
    mixed_sums(x, |[sum, squares], x| {
        let apart = x - shift;
        [sum + apart, math::fma::<FMA>(apart, apart, squares)]
    })
}

/// The mean of the first [`FEW`] elements. It is exact if they are all the same.
#[inline(always)]
pub(crate) fn average_of_first(x: &[f32]) -> f32 {
    let first = x.first_chunk::<FEW>().copied().unwrap_or_default();
    Partial(first).merged(|a, b| a + b) / FEW as f32
}

/// Σ e^(x − `shift`) for x of at most `shift`, off by as much as a [`mixed_sum`].
#[inline(always)]
pub(crate) fn sum_of_exps<const FMA: bool>(x: &[f32], shift: f32) -> f64 {
    mixed_sum(x, |x| math::exp_nonpositive::<FMA>(x - shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each addition of equal elements to their sum rounds alike, so that nothing cancels.
    #[test]
    fn sums_in_single_precision_are_within_their_bounds() {
        const HALF_ULP: f64 = 1.0 / (1 << 24) as f64;
        for x in [0.1_f32, 1.000_000_1, 1.0 / 3.0, 0.999_999_94] {
            for len in [1, 127, F32_TERMS - 1, F32_TERMS, 3 * F32_TERMS + 5, 100_000] {
                let row = vec![x; len];
                let off = |sum: f64, term: f64| (sum / (term * len as f64) - 1.0).abs();
                assert!(off(mixed_sum(&row, |x| x), x.into()) <= 14.0 * HALF_ULP);
                let apart = f64::from(x) + 2.0;
                let [sum, squares] = moments::<false>(&row, -2.0);
                assert!(off(sum, apart) <= 15.0 * HALF_ULP);
                assert!(off(squares, apart * apart) <= 17.0 * HALF_ULP);
                let square = f64::from(x) * f64::from(x);
                assert!(off(mixed_squares::<false>(&row), square) <= 15.0 * HALF_ULP);
            }
        }
    }

    #[test]
    fn what_all_are_is_their_average() {
        for x in [0.1, -7e36, 1e-44] {
            assert_eq!(average_of_first(&[x; 20]), x);
        }
    }
}
