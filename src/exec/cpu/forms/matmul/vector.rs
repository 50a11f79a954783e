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
    let mut at = 0;
    while at + WIDE <= out.len() {
        strip::<WIDE>(x, &w[at..], stride, &mut out[at..]);
        at += WIDE;
    }
    while at + MIDDLE <= out.len() {
        strip::<MIDDLE>(x, &w[at..], stride, &mut out[at..]);
        at += MIDDLE;
    }
    while at + NARROW <= out.len() {
        strip::<NARROW>(x, &w[at..], stride, &mut out[at..]);
        at += NARROW;
    }
    while at < out.len() {
        strip::<1>(x, &w[at..], stride, &mut out[at..]);
        at += 1;
    }
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
