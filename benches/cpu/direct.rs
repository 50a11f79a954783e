//! The same work without an engine: loops by hand that move each byte once, and the `gemm` crate called as
//! it is.

use gemm::Parallelism;
use multiversion::multiversion;
use rayon::prelude::*;

use crate::convolution::Sizes;

/// Elements that a thread takes at a time.
const CHUNK: usize = 1 << 14;

/// Rows that a thread takes at a time.
const ROWS: usize = 4;

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

/// Softmax of rows of `len`, each of which is read and written while it is in the cache.
pub fn softmax(x: &[f32], len: usize, out: &mut [f32]) {
    let rows = out.par_chunks_mut(len).zip(x.par_chunks(len)).with_min_len(ROWS);
    rows.for_each(|(out, x)| softmax_of(x, out));
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq", "x86_64+avx2+fma"))]
fn softmax_of(x: &[f32], out: &mut [f32]) {
    let greatest = greatest(x);
    for (out, x) in out.iter_mut().zip(x) {
        *out = exp(x - greatest);
    }
    let scale = 1.0 / lanes(out, 0.0, |sum, x| sum + x).iter().sum::<f32>();
    for out in out {
        *out *= scale;
    }
}

/// The logarithm of [`softmax`].
pub fn log_softmax(x: &[f32], len: usize, out: &mut [f32]) {
    let rows = out.par_chunks_mut(len).zip(x.par_chunks(len)).with_min_len(ROWS);
    rows.for_each(|(out, x)| log_softmax_of(x, out));
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq", "x86_64+avx2+fma"))]
fn log_softmax_of(x: &[f32], out: &mut [f32]) {
    let greatest = greatest(x);
    let sum = lanes(x, 0.0, |sum, x| sum + exp(x - greatest)).iter().sum::<f32>();
    let least = greatest + sum.ln();
    for (out, x) in out.iter_mut().zip(x) {
        *out = x - least;
    }
}

#[inline(always)]
fn greatest(x: &[f32]) -> f32 {
    let greatest = lanes(x, f32::NEG_INFINITY, |a, x| if x > a { x } else { a });
    greatest.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// e to a power of 0 or less: 2ⁿ times the first terms of the series, to some 1e-7 of the result.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Its lowest bits are the nearest whole number to what it is added to.
    const WHOLE: f32 = 1.5 * (1 << 23) as f32;
    let x = if x > -87.0 { x } else { -87.0 } * std::f32::consts::LOG2_E;
    let shifted = x + WHOLE;
    let r = (x - (shifted - WHOLE)) * std::f32::consts::LN_2;
    let series = ((r * (1.0 / 720.0) + 1.0 / 120.0) * r + 1.0 / 24.0) * r + 1.0 / 6.0;
    let series = ((series * r + 0.5) * r + 1.0) * r + 1.0;
    series * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
}

/// Layer norm of rows of `len`.
pub fn layer_norm(x: &[f32], len: usize, out: &mut [f32]) {
    let rows = out.par_chunks_mut(len).zip(x.par_chunks(len)).with_min_len(ROWS);
    rows.for_each(|(out, x)| layer_norm_of(x, out));
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2+fma"))]
fn layer_norm_of(x: &[f32], out: &mut [f32]) {
    let len = x.len() as f32;
    let mean = lanes(x, 0.0, |sum, x| sum + x).iter().sum::<f32>() / len;
    let squares = lanes(x, 0.0, |sum, x| sum + (x - mean) * (x - mean));
    let scale = 1.0 / (squares.iter().sum::<f32>() / len + 1e-5).sqrt();
    for (out, x) in out.iter_mut().zip(x) {
        *out = (x - mean) * scale;
    }
}

const LANES: usize = 64;

/// `x` combined in lanes; what does not fill them is left out.
#[inline(always)]
fn lanes(x: &[f32], start: f32, step: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    let mut all = [start; LANES];
    for block in x.as_chunks::<LANES>().0 {
        for i in 0..LANES {
            all[i] = step(all[i], block[i]);
        }
    }
    all
}

/// The sum.
pub fn sum(x: &[f32]) -> f32 {
    x.par_chunks(CHUNK).map(sum_of).sum()
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2+fma"))]
fn sum_of(x: &[f32]) -> f32 {
    let sums = lanes(x, 0.0, |sum, x| sum + x);
    sums.iter().chain(x.as_chunks::<LANES>().1).sum()
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

/// A convolution: each image's windows written out, and multiplied by `gemm`, an image a thread.
pub fn convolution(sizes: &Sizes, images: &[f32], w: &[f32], out: &mut [f32]) {
    let Sizes { channels, side, filters, size, groups, .. } = *sizes;
    let (taps, places) = (channels / groups * size * size, sizes.places() * sizes.places());
    let filters = filters / groups;
    let pairs = out
        .par_chunks_mut(filters * places)
        .zip(images.par_chunks(channels / groups * side * side))
        .enumerate();
    pairs.for_each_init(Vec::new, |windows, (index, (out, image))| {
        windows_of(sizes, image, windows);
        let w = &w[index % groups * filters * taps..][..filters * taps];
        product([filters, places, taps], w, windows, [places, 1], out, Parallelism::None);
    });
}

/// The windows, a row for each place in one and a column for each window.
fn windows_of(sizes: &Sizes, image: &[f32], windows: &mut Vec<f32>) {
    let Sizes { side, size, step, padding, dilation, .. } = *sizes;
    windows.clear();
    for channel in image.chunks(side * side) {
        for (i, j) in (0..size).flat_map(|i| (0..size).map(move |j| (i, j))) {
            for row in (0..sizes.places()).map(|row| row * step + i * dilation) {
                let row = channel.chunks(side).nth(row.wrapping_sub(padding)).unwrap_or(&[]);
                windows.extend((0..sizes.places()).map(|column| {
                    let column = (column * step + j * dilation).wrapping_sub(padding);
                    row.get(column).copied().unwrap_or(0.0)
                }));
            }
        }
    }
}
