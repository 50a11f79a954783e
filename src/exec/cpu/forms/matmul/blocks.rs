//! Products cut into blocks, each of which one thread multiplies and finishes while it is in its cache.

use std::ops::Range;

use gemm::Parallelism;

use super::by_kernel::{self, Copies, ProductBlock, Sums};
use super::gemm_call::{MatrixPointer, gemm};
use super::kernel::Kernel;
use super::operand::{Floats, Matrices};
use super::outputs::ProductOutputs;
use super::vector;
use crate::cost::WINDOW_FLOPS;
use crate::exec::cpu::operands::{ALONE, for_each};
use crate::exec::cpu::tape::{Machine, TILE};
use crate::exec::threads;

/// Multiplications a nanosecond by one thread.
const RATE: f64 = 100.0;
/// Nanoseconds to fetch an element of an operand from memory and to pack it.
const FETCH: f64 = 0.3;
/// Flops a nanosecond by one thread that computes the positions of elements.
const POSITIONS: f64 = 8.0;
/// Nanoseconds to compute an element of a window.
const WINDOW: f64 = WINDOW_FLOPS / POSITIONS;
/// Nanoseconds until an epilogue has begun with a tile.
const START: f64 = 200.0;
/// Factor of the cost of blocks wider than [`NARROW`]. `gemm` packs the left operand too for them, into memory that is
/// fresh each time.
const WIDE: f64 = 1.25;
/// Most columns for which `gemm` does not pack the left operand.
const NARROW: usize = 128;
/// Rows of the right operand that are copied at a time, if it is copied. A single row of results adds up as many at a
/// time.
pub(super) const DEPTH: usize = 256;
/// Fewest rows of a block that make a copy of the right operand pay.
const COPIED: usize = 32;

pub(super) fn multiply(floats: &Floats<'_>, results: &mut ProductOutputs<'_>) {
    let [m, n, _] = floats.size;
    assert_eq!(results.sums_mut().len(), floats.count * m * n);
    let results = &*results;
    let cost = BlockCost { flops: results.flops(), windows: is_costly(&floats.w) };
    let work =
        |worker: &mut BlockWorker<'_>, block: ProductBlock| worker.run(floats, results, &block);
    let new = || BlockWorker { machine: results.machine(), copies: Copies::default() };
    if cost.pays(floats.size, floats.count) {
        let blocks = size(floats.size, floats.count, cost, threads::count());
        return for_each(cut(floats.size, floats.count, blocks).collect(), new, work);
    }
    let mut worker = new();
    for index in 0..floats.count {
        work(&mut worker, ProductBlock { index, rows: 0..m, columns: 0..n });
    }
}

/// Returns whether one thread multiplies the products, with one call of `gemm` each and no copy of an operand. The sums
/// must be the results.
pub(super) fn is_one_call(floats: &Floats<'_>) -> bool {
    let cost = BlockCost { flops: 0, windows: is_costly(&floats.w) };
    let [m, ..] = floats.size;
    !cost.pays(floats.size, floats.count) && m > 1 && copies(floats, m) == [false; 2]
}

/// Returns whether elements of the right operand cost more than a copy. A [`Kernel`] copies windows to its panels.
fn is_costly(w: &Matrices<'_>) -> bool {
    w.is_computed() && Kernel::native().is_none()
}

/// Returns which of the operands x and w are copied for blocks of `rows` rows, if these are several.
fn copies(Floats { x, w, .. }: &Floats<'_>, rows: usize) -> [bool; 2] {
    let (few, along) = (rows < COPIED, w.strides()[1] == 1);
    [x.is_only_copied(), w.is_only_copied() || !few && !along]
}

/// Returns whether blocks of all rows of `count` products of `[m, n, k]` keep all threads busy. Windows are then
/// computed once, though each block computes its own.
pub(super) fn windows_once(one: [usize; 3], count: usize) -> bool {
    let cost = BlockCost { flops: 0, windows: true };
    size(one, count, cost, threads::count())[0] == one[0]
}

/// The cost of the work besides multiplications.
#[derive(Clone, Copy)]
struct BlockCost {
    /// Flops after each sum.
    flops: u64,
    /// True if the right operand is windows, each element of which is computed.
    windows: bool,
}

impl BlockCost {
    /// Returns whether `count` products of `[m, n, k]` are worth several threads.
    fn pays(self, [m, n, k]: [usize; 3], count: usize) -> bool {
        let [m, n, k] = [m, n, k].map(|size| size as f64);
        let windows = if self.windows { n * k * WINDOW } else { 0.0 };
        let alone = (m * n * k / RATE).max((m + n) * k * FETCH / 3.0) + windows;
        // The bound is twice that of other work, since blocks are slower than the whole.
        alone * count as f64 >= 2.0 * ALONE as f64
    }

    /// Nanoseconds that a block of `[m, n, k]` takes, of products of `all` columns.
    fn of(self, [m, n, k]: [usize; 3], all: usize) -> f64 {
        // The epilogue runs over whole rows at once, or row by row.
        let tiles = if n == all { (m * n).div_ceil(TILE) } else { m * n.div_ceil(TILE) };
        let [m, n, k] = [m, n, k].map(|size| size as f64);
        let packs = m > 1.0 && n > NARROW as f64 && Kernel::native().is_none();
        let packing = if packs { WIDE } else { 1.0 };
        let fetch = if self.windows { WINDOW } else { FETCH };
        let fetching = (m * FETCH + n * fetch) * k;
        let after = m * n * self.flops as f64 / 40.0;
        let starts = if self.flops > 0 { tiles as f64 * START } else { 0.0 };
        (m * n * k / RATE + fetching) * packing + after + starts
    }
}

/// Returns the rows and columns of the blocks that are done first, of `count` products of `[m, n, k]`.
fn size([m, n, k]: [usize; 3], count: usize, cost: BlockCost, threads: usize) -> [usize; 2] {
    if !cost.pays([m, n, k], count) {
        return [m, n];
    }
    let rows = (0..8).map(|half| m.div_ceil(1 << half).next_multiple_of(8).min(m));
    let columns = (5..10).map(|power| 1 << power).filter(|&columns| columns < n).chain([n]);
    let pairs = rows.flat_map(|rows| columns.clone().map(move |columns| [rows, columns]));
    let time = |&[rows, columns]: &[usize; 2]| {
        let blocks = m.div_ceil(rows) * n.div_ceil(columns) * count;
        blocks.div_ceil(threads) as f64 * cost.of([rows, columns, k], n)
    };
    pairs.min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or([m, n])
}

fn cut(
    [m, n, _]: [usize; 3],
    count: usize,
    [rows, columns]: [usize; 2],
) -> impl Iterator<Item = ProductBlock> {
    let pieces = |all: usize, per: usize| {
        (0..all).step_by(per.max(1)).map(move |start| start..all.min(start + per))
    };
    let bands = (0..count).flat_map(move |index| pieces(m, rows).map(move |rows| (index, rows)));
    bands.flat_map(move |(index, rows)| {
        pieces(n, columns).map(move |columns| ProductBlock { index, rows: rows.clone(), columns })
    })
}

/// The machine and the copies of one thread.
struct BlockWorker<'a> {
    machine: Machine<'a>,
    copies: Copies,
}

impl BlockWorker<'_> {
    fn run(&mut self, floats: &Floats<'_>, results: &ProductOutputs<'_>, block: &ProductBlock) {
        let [m, n, _] = floats.size;
        self.multiply(floats, results, block);
        let ProductBlock { index, rows, columns } = block;
        let start = (index * m + rows.start) * n + columns.start;
        // SAFETY: blocks are disjoint, nobody else has the results, and this thread has just written the sums of its
        // block.
        unsafe {
            if columns.len() == n {
                return results.finish(&mut self.machine, start, rows.len() * n);
            }
            for row in 0..rows.len() {
                results.finish(&mut self.machine, start + row * n, columns.len());
            }
        }
    }

    /// Computes the sums of `block`, in steps along k if an operand must be copied.
    fn multiply(
        &mut self,
        floats: &Floats<'_>,
        results: &ProductOutputs<'_>,
        block: &ProductBlock,
    ) {
        let Floats { size: [m, n, k], ref x, ref w, .. } = *floats;
        let ProductBlock { index, ref rows, ref columns } = *block;
        let out = results.sum((index * m + rows.start) * n + columns.start);
        let by_rows = rows.len() == 1 && (w.strides()[1] == 1 || w.is_only_copied());
        if let Some(kernel) = Kernel::native().filter(|_| !by_rows) {
            let sums = Sums { start: out, stride: n };
            // SAFETY: the sums of the block belong to this thread alone, and lie in rows of n, all of which exist.
            return unsafe { by_kernel::multiply(kernel, floats, block, sums, &mut self.copies) };
        }
        let [copies_x, copies_w] = copies(floats, rows.len());
        let copies = [copies_x || by_rows && x.strides()[1] != 1, copies_w];
        let depth = if copies == [false; 2] && !by_rows { k } else { DEPTH };
        for from in (0..k).step_by(depth) {
            let depth = from..k.min(from + depth);
            let x = OperandPart::of(x, index, [rows, &depth], copies[0], &mut self.copies.x);
            let w = OperandPart::of(w, index, [&depth, columns], copies[1], &mut self.copies.w);
            let more = from > 0;
            if let (true, Some(x), Some((w, stride))) = (by_rows, x.row, w.rows) {
                // SAFETY: the sums of the block belong to this thread alone. Its one row has as many elements as the
                // block has columns. All of them exist and hold numbers already.
                let out = unsafe { std::slice::from_raw_parts_mut(out, columns.len()) };
                if !more {
                    out.fill(0.0);
                }
                vector::add_product(x, w, stride, out);
                continue;
            }
            let size = [rows.len(), columns.len(), depth.len()];
            // SAFETY: both parts lie in memory with their strides, as `Floats` asserts. The sums of the block belong to
            // this thread alone, and lie in rows of n, all of which exist.
            unsafe { gemm(size, x.pointer, w.pointer, (out, n), more, Parallelism::None) };
        }
    }
}

/// Rows and columns of an operand, in place or copied.
struct OperandPart<'a> {
    pointer: MatrixPointer,
    /// The first row, if it is contiguous.
    row: Option<&'a [f32]>,
    /// The elements from the first on, and the distance from row to row, if rows are contiguous.
    rows: Option<(&'a [f32], usize)>,
}

impl<'a> OperandPart<'a> {
    fn of(
        from: &'a Matrices<'_>,
        index: usize,
        [rows, columns]: [&Range<usize>; 2],
        copied: bool,
        copy: &'a mut Vec<f32>,
    ) -> Self {
        let width = columns.len();
        if copied {
            from.copy(index, [rows.clone(), columns.clone()], copy);
            let pointer = MatrixPointer { start: copy.as_ptr(), strides: [width as isize, 1] };
            return Self { pointer, row: Some(&copy[..width]), rows: Some((copy, width)) };
        }
        let [row, column] = from.strides();
        let pointer = from.pointer(index).offset(rows.start, columns.start);
        let start = from.start(index)
            + rows.start as i64 * row as i64
            + columns.start as i64 * column as i64;
        let from_start = from.floats().get(start as usize..).filter(|_| column == 1);
        Self {
            pointer,
            row: from_start.and_then(|floats| floats.get(..width)),
            rows: from_start.zip(usize::try_from(row).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: BlockCost = BlockCost { flops: 2, windows: false };

    #[test]
    fn blocks_cover_each_element_once() {
        for (m, n, rows, columns) in [(1, 1, 1, 1), (5, 7, 2, 3), (8, 64, 8, 32), (3, 9, 5, 100)] {
            let mut seen = vec![0; 2 * m * n];
            for block in cut([m, n, 1], 2, [rows, columns]) {
                for row in block.rows {
                    for column in block.columns.clone() {
                        seen[(block.index * m + row) * n + column] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "{m} {n} {rows} {columns}");
        }
    }

    #[test]
    fn there_is_a_block_for_every_thread_where_it_pays() {
        for mnk in [[512, 512, 512], [64, 1024, 1024], [1024, 1024, 1024], [1, 4096, 4096]] {
            let [rows, columns] = size(mnk, 1, COST, 16);
            let blocks = cut(mnk, 1, [rows, columns]).count();
            assert!(blocks >= 16, "{mnk:?}: {blocks} of {rows} by {columns}");
        }
        assert_eq!(size([64, 64, 64], 1, COST, 16), [64, 64]);
        assert_eq!(size([128, 128, 128], 640, COST, 16), [128, 128]);
    }
}
