//! Product of a row and a matrix, each element of which is read once.

use multiversion::multiversion;

/// Columns whose sums stay in registers. The part of a row that is read at a time must be long. Processors prefetch the
/// memory after it too, and have evicted that when the next strip is read.
const WIDE: usize = 256;
const MIDDLE: usize = 64;
const NARROW: usize = 16;

/// Adds `x` times the matrix whose row i starts at `w[i * stride]` to `out`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn add_product(x: &[f32], w: &[f32], stride: usize, out: &mut [f32]) {
    let at = strips::<WIDE>(x, w, stride, out, 0);
    let at = strips::<MIDDLE>(x, w, stride, out, at);
    let at = strips::<NARROW>(x, w, stride, out, at);
    strips::<1>(x, w, stride, out, at);
}

/// Computes as many strips of `N` columns as there are from column `at` on. Returns the column after them.
#[inline(always)]
fn strips<const N: usize>(
    x: &[f32],
    w: &[f32],
    stride: usize,
    out: &mut [f32],
    mut at: usize,
) -> usize {
    while at + N <= out.len() {
        strip::<N>(x, &w[at..], stride, &mut out[at..]);
        at += N;
    }
    at
}

#[inline(always)]
fn strip<const N: usize>(x: &[f32], w: &[f32], stride: usize, out: &mut [f32]) {
    let mut sums = [0.0; N];
    for (i, &x) in x.iter().enumerate() {
        let w = &w[i * stride..][..N];
        for j in 0..N {
            sums[j] += x * w[j];
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out += sum;
    }
}
