//! Products of integers.

use std::ops::Range;

use multiversion::multiversion;

use super::by_kernel::STRIP;
use super::operand::Matrices;
use crate::exec::cpu::operands::{for_each_if, parts, ranges};
use crate::exec::threads;
use crate::plan::ProductForm;

/// Rows whose sums stay in registers.
const ROWS: usize = 4;
/// Columns whose sums stay in registers. In narrower strips, compilers leave the sums in memory.
const COLUMNS: usize = 64;
/// Most rows of a block.
const BAND: usize = 64;

/// Computes products modulo 2³², which are the same with and without a sign.
pub(super) fn multiply(product: &ProductForm, x: &Matrices<'_>, w: &Matrices<'_>, out: &mut [u32]) {
    let ProductForm { m, n, k, .. } = *product;
    let alone = parts((out.len() as u64).saturating_mul(k as u64)) == 1;
    let count = out.len() / (m * n).max(1);
    let size = if alone { [m, n] } else { size([m, n], count, threads::count()) };
    let work =
        |copies: &mut OperandCopies, mut block: IntegerBlock<'_>| block.multiply(k, x, w, copies);
    let blocks = cut([m, n], size, out);
    for_each_if(!alone, blocks, OperandCopies::default, work);
}

/// Returns the rows and columns of the blocks of `count` results of `m` rows of `n`. There are several blocks a thread,
/// if the results have so many.
fn size([m, n]: [usize; 2], count: usize, threads: usize) -> [usize; 2] {
    let wanted = (4 * threads).div_ceil(count);
    let rows = m.div_ceil(wanted).next_multiple_of(ROWS).min(BAND);
    let columns = n.div_ceil(wanted.div_ceil(m.div_ceil(rows))).next_multiple_of(COLUMNS);
    [rows, columns]
}

/// A block of one of the results, with its first row and column.
struct IntegerBlock<'a> {
    index: usize,
    row: usize,
    column: usize,
    /// The block's part of each of its rows.
    out: Vec<&'a mut [u32]>,
}

fn cut([m, n]: [usize; 2], [rows, columns]: [usize; 2], out: &mut [u32]) -> Vec<IntegerBlock<'_>> {
    let mut blocks: Vec<IntegerBlock<'_>> = Vec::new();
    for (index, out) in out.chunks_mut(m * n).enumerate() {
        for (band, out) in out.chunks_mut(rows * n).enumerate() {
            let first = blocks.len();
            let block = |column| IntegerBlock { index, row: band * rows, column, out: Vec::new() };
            blocks.extend((0..n).step_by(columns).map(block));
            for out in out.chunks_mut(n) {
                for (block, out) in blocks[first..].iter_mut().zip(out.chunks_mut(columns)) {
                    block.out.push(out);
                }
            }
        }
    }
    blocks
}

/// The copies of parts of the operands of one thread.
#[derive(Default)]
struct OperandCopies {
    /// A group of rows of the left operand, column by column. Missing rows are 0.
    x: Vec<[u32; ROWS]>,
    /// Rows of the right operand, if they are not read in place.
    w: Vec<f32>,
    /// The columns of less than a strip, row by row.
    rest: Vec<[u32; COLUMNS]>,
}

impl IntegerBlock<'_> {
    fn multiply(
        &mut self,
        k: usize,
        x: &Matrices<'_>,
        w: &Matrices<'_>,
        copies: &mut OperandCopies,
    ) {
        self.out.iter_mut().for_each(|out| out.fill(0));
        let width = self.out.first().map_or(0, |out| out.len());
        for depth in ranges(k, STRIP) {
            let (w, stride) = self.rows(w, &depth, width, &mut copies.w);
            let whole = width / COLUMNS * COLUMNS;
            copies.rest.clear();
            if whole < width {
                copies
                    .rest
                    .extend(w.chunks(stride).take(depth.len()).map(|w| padded(&w[whole..width])));
            }
            for (group, out) in self.out.chunks_mut(ROWS).enumerate() {
                let rows = self.row + group * ROWS..self.row + group * ROWS + out.len();
                copy_columns(x, self.index, [&rows, &depth], &mut copies.x);
                for column in (0..whole).step_by(COLUMNS) {
                    add_products(&copies.x, &w[column..], stride, column, out);
                }
                if whole < width {
                    add_products(&copies.x, copies.rest.as_flattened(), COLUMNS, whole, out);
                }
            }
        }
    }

    /// Returns the rows `depth` of the block's columns of `w`, in place or copied, and the distance from row to row in
    /// words.
    fn rows<'w>(
        &self,
        w: &'w Matrices<'_>,
        depth: &Range<usize>,
        width: usize,
        copy: &'w mut Vec<f32>,
    ) -> (&'w [u32], usize) {
        let [row, column] = w.strides();
        if let (1, Ok(stride)) = (column, usize::try_from(row))
            && stride >= width
        {
            let start = w.start(self.index) as usize + depth.start * stride + self.column;
            return (&w.words()[start..], stride);
        }
        w.copy(self.index, [depth.clone(), self.column..self.column + width], copy);
        (bytemuck::cast_slice(copy), width)
    }
}

/// Copies the elements at `rows` and `columns` of matrix `index` to `out`, by columns.
fn copy_columns(
    x: &Matrices<'_>,
    index: usize,
    [rows, columns]: [&Range<usize>; 2],
    out: &mut Vec<[u32; ROWS]>,
) {
    let (start, [row, column]) = (x.start(index) as isize, x.strides());
    out.clear();
    out.resize(columns.len(), [0; ROWS]);
    for (r, at) in rows.clone().enumerate() {
        let start = start + at as isize * row;
        for (out, at) in out.iter_mut().zip(columns.clone()) {
            out[r] = x.words()[(start + at as isize * column) as usize];
        }
    }
}

fn padded(row: &[u32]) -> [u32; COLUMNS] {
    let mut padded = [0; COLUMNS];
    padded[..row.len()].copy_from_slice(row);
    padded
}

/// Adds the products of the rows in `x` with a strip of `w` to `out`, from `column` on up to its end. Row i of the
/// strip starts at `w[i * stride]`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn add_products(
    x: &[[u32; ROWS]],
    w: &[u32],
    stride: usize,
    column: usize,
    out: &mut [&mut [u32]],
) {
    let mut sums = [[0_u32; COLUMNS]; ROWS];
    for (i, x) in x.iter().enumerate() {
        let w = &w[i * stride..][..COLUMNS];
        for r in 0..ROWS {
            for j in 0..COLUMNS {
                sums[r][j] = sums[r][j].wrapping_add(x[r].wrapping_mul(w[j]));
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        for (out, sum) in out[column..].iter_mut().zip(sums) {
            *out = out.wrapping_add(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_each_element_once_and_keep_threads_busy() {
        for [m, n, count, threads] in
            [[1, 1, 1, 16], [5, 7, 2, 2], [130, 70, 1, 16], [1, 4096, 1, 16], [1024, 1024, 1, 16]]
        {
            let [rows, columns] = size([m, n], count, threads);
            let mut out = vec![0; count * m * n];
            let blocks = cut([m, n], [rows, columns], &mut out);
            assert!(blocks.len() >= (count * m * n / (ROWS * COLUMNS)).min(threads), "{m} {n}");
            let mut seen = 0;
            for block in blocks {
                for (r, out) in block.out.into_iter().enumerate() {
                    seen += out.len();
                    out.fill((block.index * m * n + (block.row + r) * n + block.column) as u32);
                }
            }
            assert_eq!(seen, count * m * n);
            let start = |at: usize| at - at % n % columns;
            assert!(out.iter().enumerate().all(|(at, &got)| got as usize == start(at)), "{m} {n}");
        }
    }
}
