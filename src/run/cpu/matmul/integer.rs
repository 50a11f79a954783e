//! Products of integers.

use multiversion::multiversion;
use rayon::prelude::*;
use smallvec::SmallVec;

use super::Product;
use super::operand::Matrices;
use crate::run::cpu::output::parts;

/// Products modulo 2³², which are the same with and without a sign.
pub(super) fn multiply(product: &Product<'_>, x: &Matrices<'_>, w: &Matrices<'_>, out: &mut [u32]) {
    let Product { m, n, k, .. } = *product;
    let (x_words, w_words) = (x.words(), w.words());
    let work = |(row, out): (usize, &mut [u32])| {
        let ([x_row, x_column], [w_row, w_column]) = (x.strides(), w.strides());
        let x_start = x.start(row / m) as isize + (row % m) as isize * x_row;
        let w_start = w.start(row / m) as isize;
        out.fill(0);
        for i in 0..k as isize {
            let factor = x_words[(x_start + i * x_column) as usize];
            let start = w_start + i * w_row;
            if w_column == 1 {
                add_scaled(out, factor, &w_words[start as usize..][..n]);
            } else {
                for (j, out) in out.iter_mut().enumerate() {
                    let at = start + j as isize * w_column;
                    *out = out.wrapping_add(factor.wrapping_mul(w_words[at as usize]));
                }
            }
        }
    };
    let rows: SmallVec<[(usize, &mut [u32]); 8]> = out.chunks_mut(n).enumerate().collect();
    if parts((rows.len() * n) as u64 * k as u64) > 1 {
        rows.into_vec().into_par_iter().for_each(work);
    } else {
        rows.into_iter().for_each(work);
    }
}

/// `out += factor·x`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn add_scaled(out: &mut [u32], factor: u32, x: &[u32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = out.wrapping_add(factor.wrapping_mul(x));
    }
}
