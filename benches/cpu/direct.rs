//! The same work without an engine: loops by hand that move each byte once, and the `gemm` crate called as
//! it is.

use gemm::Parallelism;
use multiversion::multiversion;
use rayon::prelude::*;

/// Elements that a thread takes at a time.
const CHUNK: usize = 1 << 14;

/// Flops below which a product runs on one thread.
const SMALL: usize = 1 << 18;

/// The chain of eight operations in one loop.
pub fn chain([a, b, c, d]: [&[f32]; 4], out: &mut [f32]) {
    let chunks = out.par_chunks_mut(CHUNK).enumerate();
    let work = |(i, out): (usize, &mut [f32])| {
        let range = i * CHUNK..i * CHUNK + out.len();
        chain_of(&a[range.clone()], &b[range.clone()], &c[range.clone()], &d[range], out);
    };
    if a.len() <= CHUNK { chain_of(a, b, c, d, out) } else { chunks.for_each(work) }
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2+fma"))]
fn chain_of(a: &[f32], b: &[f32], c: &[f32], d: &[f32], out: &mut [f32]) {
    for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        let y = (a * b + c).max(0.0) * 0.5 - d;
        *out = (y * y - 0.125).max(*a);
    }
}

/// `out = x / 2`: what reads and writes each element once.
pub fn scale(x: &[f32], out: &mut [f32]) {
    out.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(out, x)| {
        for (out, x) in out.iter_mut().zip(x) {
            *out = x * 0.5;
        }
    });
}

/// The sum.
pub fn sum(x: &[f32]) -> f32 {
    x.par_chunks(CHUNK).map(sum_of).sum()
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2+fma"))]
fn sum_of(x: &[f32]) -> f32 {
    const LANES: usize = 64;
    let mut sums = [0.0; LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for block in blocks {
        for i in 0..LANES {
            sums[i] += block[i];
        }
    }
    sums.iter().chain(rest).sum()
}

/// Products of matrices `m × k` and `k × n`, those of `w` with the strides `[row, column]`: several on a
/// thread each, a single large one on all.
pub fn products(size: [usize; 3], x: &[f32], w: &[f32], w_strides: [usize; 2], out: &mut [f32]) {
    let [m, n, k] = size;
    if out.len() > m * n {
        let stacks = x.par_chunks(m * k).zip(w.par_chunks(k * n));
        out.par_chunks_mut(m * n)
            .zip(stacks)
            .for_each(|(out, (x, w))| product(size, x, w, w_strides, out, Parallelism::None));
        return;
    }
    let parallel = if m * n * k < SMALL { Parallelism::None } else { Parallelism::Rayon(0) };
    product(size, x, w, w_strides, out, parallel);
}

fn product(
    [m, n, k]: [usize; 3],
    x: &[f32],
    w: &[f32],
    [w_row, w_column]: [usize; 2],
    out: &mut [f32],
    parallel: Parallelism,
) {
    assert!(x.len() == m * k && w.len() == k * n && out.len() == m * n);
    // SAFETY: each matrix has as many elements as its size says, as asserted; the strides of `w` are those
    // of `k × n` elements in either order.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            x.as_ptr(),
            1,
            k as isize,
            w.as_ptr(),
            w_column as isize,
            w_row as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            parallel,
        );
    }
}
