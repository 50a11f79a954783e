//! Rows normalised: each is read from memory once, and again only while it is in the first-level cache.

use multiversion::multiversion;

use super::math;
use super::wide::{self, FEW, MANY, Partial};
use crate::ops::RowKind;

/// Elements between two steps of the same loop over a row.
const BLOCK: usize = 4 * MANY;

/// `to` = the rows of `len` elements of `from`, which is as long, normalised.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn normalize(kind: RowKind, epsilon: f64, len: usize, from: &[f32], to: &mut [f32]) {
    if kind == RowKind::Softmax && len < 2 * MANY {
        return short_softmax(from, to, len);
    }
    // A loop, since the closure of an iterator may be compiled without the instruction set.
    for (from, to) in from.chunks(len).zip(to.chunks_mut(len)) {
        match kind {
            RowKind::Softmax => softmax(from, to),
            RowKind::LogSoftmax => log_softmax(from, to),
            RowKind::LayerNorm if len < 2 * MANY => layer_norm::<FEW>(from, to, epsilon),
            RowKind::LayerNorm => layer_norm::<MANY>(from, to, epsilon),
            RowKind::RmsNorm => rms_norm(from, to, epsilon),
            RowKind::L2Normalize => l2_normalize(from, to, epsilon),
        }
    }
}

/// The exponentials over all rows at once: a short one would not fill a vector.
#[inline(always)]
fn short_softmax(from: &[f32], to: &mut [f32], len: usize) {
    for (from, to) in from.chunks(len).zip(to.chunks_mut(len)) {
        let greatest = wide::greatest_number(from);
        for (to, &x) in to.iter_mut().zip(from) {
            *to = x - greatest;
        }
    }
    for x in &mut *to {
        *x = math::exp_nonpositive(*x);
    }
    for row in to.chunks_mut(len) {
        let scale = (1.0 / wide::sum(row, f64::from)) as f32;
        for x in row {
            *x *= scale;
        }
    }
}

#[inline(always)]
fn softmax(from: &[f32], to: &mut [f32]) {
    // A NaN reaches all of the row by the sum.
    let greatest = wide::greatest_number(from);
    let mut sums = Partial::<f64, MANY>::new(0.0);
    for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
        for (to, &x) in to.iter_mut().zip(from) {
            *to = math::exp_nonpositive(x - greatest);
        }
        sums.take(to, |sum, x| sum + f64::from(x));
    }
    let scale = (1.0 / sums.merged(|a, b| a + b)) as f32;
    for x in to {
        *x *= scale;
    }
}

#[inline(always)]
fn log_softmax(from: &[f32], to: &mut [f32]) {
    let greatest = wide::greatest_number(from);
    let (mut exps, mut sums) = ([0.0; BLOCK], Partial::<f64, MANY>::new(0.0));
    for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
        let exps = &mut exps[..from.len()];
        // Stored here, where there is much to compute while memory takes it.
        for ((to, exp), &x) in to.iter_mut().zip(&mut *exps).zip(from) {
            *to = x - greatest;
            *exp = math::exp_nonpositive(*to);
        }
        sums.take(exps, |sum, x| sum + f64::from(x));
    }
    let log = sums.merged(|a, b| a + b).ln() as f32;
    for x in to {
        *x -= log;
    }
}

#[inline(always)]
fn layer_norm<const N: usize>(from: &[f32], to: &mut [f32], epsilon: f64) {
    let len = from.len() as f64;
    let mean = wide::sum(from, f64::from) / len;
    // What rounding took off the mean is as much as the variance of a constant row.
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
fn rms_norm(from: &[f32], to: &mut [f32], epsilon: f64) {
    let squares = wide::sum(from, |x| f64::from(x) * f64::from(x));
    let scale = (1.0 / (squares / from.len() as f64 + epsilon).sqrt()) as f32;
    for (to, &x) in to.iter_mut().zip(from) {
        *to = x * scale;
    }
}

#[inline(always)]
fn l2_normalize(from: &[f32], to: &mut [f32], epsilon: f64) {
    let norm = wide::sum(from, |x| f64::from(x) * f64::from(x)).sqrt();
    // Unlike `f64::max`, NaN if the norm is.
    let scale = (1.0 / if norm < epsilon { epsilon } else { norm }) as f32;
    for (to, &x) in to.iter_mut().zip(from) {
        *to = x * scale;
    }
}
