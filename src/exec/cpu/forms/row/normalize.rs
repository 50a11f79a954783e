//! Normalisations of rows. Each row is read from memory once, and again only while it is in the first-level cache.

use std::ops::Range;

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use crate::exec::cpu::tape::math;
use crate::exec::cpu::tape::wide::{self, FEW, MANY, Partial};
use crate::ops::RowKind;

/// Elements that one step of a loop over a row passes to the next step at a time.
const BLOCK: usize = 4 * MANY;
/// Range of the mean square in which no square that matters leaves the range of single precision.
const SQUARES: Range<f64> = 1e-28..1e30;

/// Normalises the rows of `len` elements of `from` into `to`, which is as long.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn normalize(kind: RowKind, epsilon: f64, len: usize, from: &[f32], to: &mut [f32]) {
    const FMA: bool = target_cfg_f!(any(target_feature = "fma", target_arch = "aarch64"));
    if kind == RowKind::Softmax && len < 2 * MANY {
        return short_softmax::<FMA>(from, to, len);
    }
    // This is a loop, since the closure of an iterator may be compiled without the instruction set.
    for (from, to) in from.chunks(len).zip(to.chunks_mut(len)) {
        match kind {
            RowKind::Softmax => softmax::<FMA>(from, to),
            RowKind::LogSoftmax => log_softmax::<FMA>(from, to),
            RowKind::LayerNorm if len < 2 * MANY => layer_norm::<FEW>(from, to, epsilon),
            RowKind::LayerNorm => shifted_layer_norm::<FMA>(from, to, epsilon),
            RowKind::RmsNorm => rms_norm::<FMA>(from, to, epsilon),
            RowKind::L2Normalize => l2_normalize::<FMA>(from, to, epsilon),
        }
    }
}

/// Softmax of short rows. The exponentials of all rows are computed at once: a short row would not fill a vector.
#[inline(always)]
fn short_softmax<const FMA: bool>(from: &[f32], to: &mut [f32], len: usize) {
    for (from, to) in from.chunks(len).zip(to.chunks_mut(len)) {
        let greatest = wide::greatest_number(from);
        for (to, &x) in to.iter_mut().zip(from) {
            *to = x - greatest;
        }
    }
    for x in &mut *to {
        *x = math::exp_nonpositive::<FMA>(*x);
    }
    for row in to.chunks_mut(len) {
        let scale = (1.0 / wide::sum(row, f64::from)) as f32;
        for x in row {
            *x *= scale;
        }
    }
}

#[inline(always)]
fn softmax<const FMA: bool>(from: &[f32], to: &mut [f32]) {
    // A NaN reaches the whole row through the sum.
    let greatest = wide::greatest_number(from);
    let sum = wide::written_exps::<FMA>(from, to, greatest);
    let scale = (1.0 / sum) as f32;
    for x in to {
        *x *= scale;
    }
}

#[inline(always)]
fn log_softmax<const FMA: bool>(from: &[f32], to: &mut [f32]) {
    let greatest = wide::greatest_number(from);
    // The exponentials are overwritten.
    let log = wide::written_exps::<FMA>(from, to, greatest).ln() as f32;
    for (to, &x) in to.iter_mut().zip(from) {
        *to = (x - greatest) - log;
    }
}

/// Layer norm by the moments of differences from a number near the mean, in one pass. [`layer_norm`] takes about twice
/// as long, and is used if no such number is found.
///
/// The bounds hold by those of [`wide::moments`] if that number is at most a standard deviation from the mean. The mean
/// is then off by at most 22·2⁻²⁴ of a standard deviation, and the variance by at most 77·2⁻²⁴ of itself.
#[inline(always)]
fn shifted_layer_norm<const FMA: bool>(from: &[f32], to: &mut [f32], epsilon: f64) {
    let len = from.len() as f64;
    // In a constant row, this is exactly the value of its elements.
    let mut shift = wide::average_of_first(from);
    for _ in 0..2 {
        let [mean, square] = wide::moments::<FMA>(from, shift).map(|sum| sum / len);
        let variance = square - mean * mean;
        if SQUARES.contains(&square) && mean * mean <= variance {
            let scale = 1.0 / (variance + epsilon).sqrt();
            let (scale, start) = (scale as f32, (mean * scale) as f32);
            for (to, &x) in to.iter_mut().zip(from) {
                *to = math::fma::<FMA>(x - shift, scale, -start);
            }
            return;
        }
        let nearer = (f64::from(shift) + mean) as f32;
        // The moments would be the same again, as in a constant row.
        if nearer == shift {
            break;
        }
        shift = nearer;
    }
    layer_norm::<MANY>(from, to, epsilon);
}

#[inline(always)]
fn layer_norm<const N: usize>(from: &[f32], to: &mut [f32], epsilon: f64) {
    let len = from.len() as f64;
    let mean = wide::sum(from, f64::from) / len;
    // The part of the mean that rounding takes off would count as the variance of a constant row.
    let near = mean as f32;
    let low = (mean - f64::from(near)) as f32;
    let mut squares = Partial::<f64, N>::new(0.0);
    for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
        for (to, &x) in to.iter_mut().zip(from) {
            *to = (x - near) - low;
        }
        squares.take(to, |sum, x| sum + f64::from(x) * f64::from(x));
    }
    let scale = (1.0 / (squares.merged(|a, b| a + b) / len + epsilon).sqrt()) as f32;
    for x in to {
        *x *= scale;
    }
}

#[inline(always)]
fn rms_norm<const FMA: bool>(from: &[f32], to: &mut [f32], epsilon: f64) {
    divided(from, to, (sum_of_squares::<FMA>(from) / from.len() as f64 + epsilon).sqrt());
}

#[inline(always)]
fn l2_normalize<const FMA: bool>(from: &[f32], to: &mut [f32], epsilon: f64) {
    let norm = sum_of_squares::<FMA>(from).sqrt();
    // Unlike `f64::max`, this is NaN if the norm is.
    divided(from, to, if norm < epsilon { epsilon } else { norm });
}

/// Σx², off by at most 15·2⁻²⁴ of itself. A sum in single precision takes half the time of one in double precision.
#[inline(always)]
fn sum_of_squares<const FMA: bool>(x: &[f32]) -> f64 {
    if x.len() >= 2 * MANY {
        let sum = wide::mixed_squares::<FMA>(x);
        if SQUARES.contains(&(sum / x.len() as f64)) {
            return sum;
        }
    }
    wide::sum(x, |x| f64::from(x) * f64::from(x))
}

/// `to` = `from` / `by`, by two factors if the reciprocal is no normal `f32`: a power of two comes first.
#[inline(always)]
fn divided(from: &[f32], to: &mut [f32], by: f64) {
    let first: f32 = match by {
        by if by > 2_f64.powi(100) => 2_f32.powi(-74),
        by if by < 2_f64.powi(-100) => 2_f32.powi(42),
        _ => 1.0,
    };
    let scale = (1.0 / (by * f64::from(first))) as f32;
    for (to, &x) in to.iter_mut().zip(from) {
        *to = x * first * scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::tape::wide::F32_TERMS;

    /// Nearly normally distributed numbers.
    fn noise(len: usize) -> impl Iterator<Item = f32> {
        let mut state = 1_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        (0..len).map(move |_| (0..12).map(|_| next()).sum::<f32>() - 6.0)
    }

    fn exact_layer_norm(x: &[f32], epsilon: f64) -> impl Iterator<Item = f64> {
        let mean_of = |f: &dyn Fn(f64) -> f64| {
            x.iter().map(|&x| f(f64::from(x))).sum::<f64>() / x.len() as f64
        };
        let mean = mean_of(&|x| x);
        let variance = mean_of(&|x| (x - mean) * (x - mean));
        x.iter().map(move |&x| (f64::from(x) - mean) / (variance + epsilon).sqrt())
    }

    /// Softmax and log-softmax of `x`, exactly.
    fn exact_softmax(x: &[f32]) -> impl Iterator<Item = [f64; 2]> {
        let greatest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let apart = move |x: f32| f64::from(x) - f64::from(greatest);
        let log = x.iter().map(|&x| apart(x).exp()).sum::<f64>().ln();
        x.iter().map(move |&x| [(apart(x) - log).exp(), apart(x) - log])
    }

    #[test]
    fn softmax_of_any_length_is_within_its_bounds() {
        let lens = [1, 2, 7, 127, 128, 129, 255, 2 * MANY, 2 * MANY + 1, 1000, F32_TERMS + 3];
        for len in lens.into_iter().chain([4 * F32_TERMS + 129]) {
            let mut x: Vec<f32> = noise(len).map(|x| x * 6.0).collect();
            if len > 7 {
                x[1..7].copy_from_slice(&[f32::NEG_INFINITY, -0.0, 0.0, -87.0, -103.0, -1e30]);
            }
            let (mut got, mut logs) = (vec![f32::NAN; len], vec![f32::NAN; len]);
            normalize(RowKind::Softmax, 0.0, len, &x, &mut got);
            normalize(RowKind::LogSoftmax, 0.0, len, &x, &mut logs);
            for (at, [want, log]) in exact_softmax(&x).enumerate() {
                let near = (f64::from(got[at]) - want).abs() <= 5e-6 * want + 1e-44;
                assert!(near, "{len} at {at}: {} for {want}", got[at]);
                let near = (f64::from(logs[at]) - log).abs() <= 5e-7 * log.abs() + 2e-6;
                assert!(
                    near || f64::from(logs[at]) == log,
                    "{len} at {at}: {} for {log}",
                    logs[at]
                );
            }
        }
    }

    #[test]
    fn rows_without_a_softmax_are_nan_and_leave_others_alone() {
        for len in [1, 5, 2 * MANY + 1, F32_TERMS + 2] {
            let bad = [
                vec![f32::NEG_INFINITY; len],
                [vec![1.0; len - 1], vec![f32::NAN]].concat(),
                [vec![f32::INFINITY], vec![1.0; len - 1]].concat(),
            ];
            for bad in bad {
                let x = [vec![0.5; len], bad, vec![-0.0; len]].concat();
                for kind in [RowKind::Softmax, RowKind::LogSoftmax] {
                    let mut y = vec![7.0; 3 * len];
                    normalize(kind, 0.0, len, &x, &mut y);
                    let (first, rest) = y.split_at(len);
                    let (second, third) = rest.split_at(len);
                    assert!(second.iter().all(|y| y.is_nan()), "{kind:?} {len}: {second:?}");
                    assert!(first == third && first.iter().all(|y| y.is_finite()));
                }
            }
        }
    }

    /// Rows whose mean is near their first elements or far from them, and rows whose squares overflow or vanish in
    /// `f32`.
    #[test]
    fn layer_norm_is_as_exact_as_it_says() {
        type Row<'a> = (&'a str, f64, &'a dyn Fn(usize, f32) -> f32);
        let outliers = |at: usize, x: f32| if at < FEW { x + 1e6 } else { x };
        let rows: [Row<'_>; 7] = [
            ("far from zero", 1e-5, &|_, x| x + 1e4),
            ("farther", 1e-5, &|_, x| x - 1e6),
            ("rising", 1e-5, &|at, x| x + at as f32),
            ("after outliers", 1e-5, &outliers),
            ("large", 1e-5, &|_, x| x * 1e25),
            ("tiny", 0.0, &|_, x| x * 1e-25),
            ("of two values", 1e-5, &|at, _| if at % 2 == 0 { 0.1 } else { 0.7 }),
        ];
        for len in [2 * MANY, 2 * MANY + 1, 1000, F32_TERMS, 4 * F32_TERMS + 3, 20_000] {
            for (name, epsilon, row) in rows {
                let x: Vec<f32> = noise(len).enumerate().map(|(at, x)| row(at, x)).collect();
                let mut y = vec![0.0; len];
                normalize(RowKind::LayerNorm, epsilon, len, &x, &mut y);
                for (at, (&y, exact)) in y.iter().zip(exact_layer_norm(&x, epsilon)).enumerate() {
                    // The bound is that of the mean and half that of the variance, with the roundings after them.
                    let bound = (25.0 + 42.0 * exact.abs()) * 2_f64.powi(-24);
                    let off = (f64::from(y) - exact).abs();
                    assert!(off <= bound, "{name}, {len}: [{at}] = {y}, not {exact}");
                }
            }
        }
    }

    /// Rows whose squares leave the range of `f32` too.
    #[test]
    fn divided_rows_are_as_exact_as_it_says() {
        for len in [2 * MANY - 1, 2 * MANY, F32_TERMS + 3, 20_000] {
            for scale in [1.0, 1e25, 1e-25] {
                let x: Vec<f32> = noise(len).map(|x| x * scale).collect();
                let squares: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum();
                let norms = [
                    (RowKind::RmsNorm, (squares / len as f64).sqrt()),
                    (RowKind::L2Normalize, squares.sqrt()),
                ];
                for (kind, by) in norms {
                    let mut y = vec![0.0; len];
                    normalize(kind, 0.0, len, &x, &mut y);
                    for (&x, y) in x.iter().zip(y) {
                        // Half the bound of the sum, with the roundings after it.
                        let exact = f64::from(x) / by;
                        let near =
                            (f64::from(y) - exact).abs() <= 10.0 / f64::from(1 << 24) * exact.abs();
                        assert!(near, "{kind:?} {len} {scale}: {y}, not {exact}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_constant_row_has_no_variance() {
        for x in [0.1, -3e38, 1e-40, 12_345.678] {
            for len in [2 * MANY, 1000, 5000] {
                let mut y = vec![1.0; len];
                normalize(RowKind::LayerNorm, 1e-5, len, &vec![x; len], &mut y);
                assert!(y.iter().all(|&y| y == 0.0), "{x}, {len}: {y:?}");
            }
        }
    }

    #[test]
    fn weights_sum_to_one_however_many_there_are() {
        for len in [2 * MANY, 1000, 100_000] {
            let x: Vec<f32> = noise(len).collect();
            let (mut y, mut log) = (vec![0.0; len], vec![0.0; len]);
            normalize(RowKind::Softmax, 0.0, len, &x, &mut y);
            normalize(RowKind::LogSoftmax, 0.0, len, &x, &mut log);
            let sum: f64 = x.iter().map(|&x| f64::from(x).exp()).sum();
            for ((&x, &y), &log) in x.iter().zip(&y).zip(&log) {
                let exact = f64::from(x).exp() / sum;
                assert!((f64::from(y) / exact - 1.0).abs() < 20.0 * 2_f64.powi(-24));
                assert!((f64::from(log) - exact.ln()).abs() < 60.0 * 2_f64.powi(-24));
            }
        }
    }
}
