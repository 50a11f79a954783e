//! Products cut into blocks, each of which one thread multiplies and finishes while it is in its cache.

use std::ops::Range;

use gemm::Parallelism;

use super::operand::{Floats, Matrices};
use super::results::Results;
use super::{Place, gemm, vector};
use crate::cost::WINDOW_FLOPS;
use crate::exec::cpu::operands::output::{ALONE, for_each};
use crate::exec::cpu::tape::machine::Machine;
use crate::exec::threads;

/// Multiplications a nanosecond of a thread.
const RATE: f64 = 100.0;
/// Nanoseconds for an element of an operand to come from memory, and to be packed.
const FETCH: f64 = 0.3;
/// Flops a nanosecond of a thread that computes where elements lie.
const POSITIONS: f64 = 8.0;
/// Nanoseconds for an element of a window to be computed.
const WINDOW: f64 = WINDOW_FLOPS / POSITIONS;
/// What wider blocks cost more: `gemm` packs the left operand too for them, into memory that is fresh each time.
const WIDE: f64 = 1.25;
/// The most columns that it does not do so for.
const NARROW: usize = 128;
/// How many rows of the right operand are copied at a time, where they are, and added up at a time for one row.
pub(super) const DEPTH: usize = 256;
/// The fewest rows that a copy of the right operand pays for.
const COPIED: usize = 32;

/// Rows and columns of one of the matrices.
#[derive(Debug)]
struct Block {
    index: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// Computes `results`.
pub(super) fn multiply(floats: &Floats<'_>, results: &mut Results<'_>) {
    let [m, n, _] = floats.size;
    assert_eq!(results.sums_mut().len(), floats.count * m * n);
    let results = &*results;
    let cost = Cost { flops: results.flops(), windows: floats.w.is_computed() };
    let work = |worker: &mut Worker<'_>, block: Block| worker.run(floats, results, &block);
    let new = || Worker { machine: results.machine(), x: Vec::new(), w: Vec::new() };
    if cost.pays(floats.size, floats.count) {
        let blocks = size(floats.size, floats.count, cost, threads::count());
        return for_each(cut(floats.size, floats.count, blocks).collect(), new, work);
    }
    let mut worker = new();
    for index in 0..floats.count {
        work(&mut worker, Block { index, rows: 0..m, columns: 0..n });
    }
}

/// Whether products whose sums are the results are multiplied by one thread, which copies neither operand: in one call of
/// `gemm` each.
pub(super) fn is_one_call(floats: &Floats<'_>) -> bool {
    let cost = Cost { flops: 0, windows: floats.w.is_computed() };
    let [m, ..] = floats.size;
    !cost.pays(floats.size, floats.count) && m > 1 && copies(floats, m) == [false; 2]
}

/// Which operands are copied for blocks of so many `rows`, if these are several.
fn copies(Floats { x, w, .. }: &Floats<'_>, rows: usize) -> [bool; 2] {
    let (few, along) = (rows < COPIED, w.strides()[1] == 1);
    [x.is_only_copied(), w.is_only_copied() || !few && !along]
}

/// Whether all threads are busy with blocks of all rows of `count` products of `[m, n, k]`, so that windows are
/// computed once though each block computes its own.
pub(super) fn windows_once(one: [usize; 3], count: usize) -> bool {
    let cost = Cost { flops: 0, windows: true };
    size(one, count, cost, threads::count())[0] == one[0]
}

/// What there is to do besides multiplications.
#[derive(Clone, Copy)]
struct Cost {
    /// After each sum.
    flops: u64,
    /// Whether the right operand is windows, of which each element is computed.
    windows: bool,
}

impl Cost {
    /// Whether `count` products of `[m, n, k]` are worth several threads.
    fn pays(self, [m, n, k]: [usize; 3], count: usize) -> bool {
        let [m, n, k] = [m, n, k].map(|size| size as f64);
        let windows = if self.windows { n * k * WINDOW } else { 0.0 };
        let alone = (m * n * k / RATE).max((m + n) * k * FETCH / 3.0) + windows;
        // Twice as much as elsewhere: blocks are slower than the whole.
        alone * count as f64 >= 2.0 * ALONE as f64
    }

    /// Nanoseconds that a block of `[m, n, k]` takes.
    fn of(self, [m, n, k]: [usize; 3]) -> f64 {
        let [m, n, k] = [m, n, k].map(|size| size as f64);
        let packing = if m > 1.0 && n > NARROW as f64 { WIDE } else { 1.0 };
        let fetch = if self.windows { WINDOW } else { FETCH };
        let fetching = (m * FETCH + n * fetch) * k;
        (m * n * k / RATE + fetching) * packing + m * n * self.flops as f64 / 40.0
    }
}

/// Rows and columns of the blocks that are done first, of `count` products of `[m, n, k]`.
fn size([m, n, k]: [usize; 3], count: usize, cost: Cost, threads: usize) -> [usize; 2] {
    if !cost.pays([m, n, k], count) {
        return [m, n];
    }
    let rows = (0..8).map(|half| m.div_ceil(1 << half).next_multiple_of(8).min(m));
    let columns = (5..10).map(|power| 1 << power).filter(|&columns| columns < n).chain([n]);
    let pairs = rows.flat_map(|rows| columns.clone().map(move |columns| [rows, columns]));
    let time = |&[rows, columns]: &[usize; 2]| {
        let blocks = m.div_ceil(rows) * n.div_ceil(columns) * count;
        blocks.div_ceil(threads) as f64 * cost.of([rows, columns, k])
    };
    pairs.min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or([m, n])
}

fn cut(
    [m, n, _]: [usize; 3],
    count: usize,
    [rows, columns]: [usize; 2],
) -> impl Iterator<Item = Block> {
    let pieces = |all: usize, per: usize| {
        (0..all).step_by(per.max(1)).map(move |start| start..all.min(start + per))
    };
    let bands = (0..count).flat_map(move |index| pieces(m, rows).map(move |rows| (index, rows)));
    bands.flat_map(move |(index, rows)| {
        pieces(n, columns).map(move |columns| Block { index, rows: rows.clone(), columns })
    })
}

/// What a thread has of its own.
struct Worker<'a> {
    machine: Machine<'a>,
    /// Copies of parts of the operands.
    x: Vec<f32>,
    w: Vec<f32>,
}

impl Worker<'_> {
    fn run(&mut self, floats: &Floats<'_>, results: &Results<'_>, block: &Block) {
        let [m, n, _] = floats.size;
        self.multiply(floats, results, block);
        let Block { index, rows, columns } = block;
        let start = (index * m + rows.start) * n + columns.start;
        // SAFETY: blocks are disjoint, nobody else has the results, and this thread has just written the sums of its own.
        unsafe {
            if columns.len() == n {
                return results.finish(&mut self.machine, start, rows.len() * n);
            }
            for row in 0..rows.len() {
                results.finish(&mut self.machine, start + row * n, columns.len());
            }
        }
    }

    /// The sums of `block`, in steps along k where an operand must be copied.
    fn multiply(&mut self, floats: &Floats<'_>, results: &Results<'_>, block: &Block) {
        let Floats { size: [m, n, k], ref x, ref w, .. } = *floats;
        let Block { index, ref rows, ref columns } = *block;
        let out = results.sum((index * m + rows.start) * n + columns.start);
        let by_rows = rows.len() == 1 && (w.strides()[1] == 1 || w.is_only_copied());
        let [copies_x, copies_w] = copies(floats, rows.len());
        let copies = [copies_x || by_rows && x.strides()[1] != 1, copies_w];
        let depth = if copies == [false; 2] && !by_rows { k } else { DEPTH };
        for from in (0..k).step_by(depth) {
            let depth = from..k.min(from + depth);
            let x = Part::of(x, index, [rows, &depth], copies[0], &mut self.x);
            let w = Part::of(w, index, [&depth, columns], copies[1], &mut self.w);
            let more = from > 0;
            if let (true, Some(x), Some((w, stride))) = (by_rows, x.row, w.rows) {
                // SAFETY: the sums of the block are this thread's alone; its one row is as long as it has columns, is
                // there and holds numbers already.
                let out = unsafe { std::slice::from_raw_parts_mut(out, columns.len()) };
                if !more {
                    out.fill(0.0);
                }
                vector::add_product(x, w, stride, out);
                continue;
            }
            let size = [rows.len(), columns.len(), depth.len()];
            // SAFETY: both parts lie in memory with their strides (`Floats` makes sure); the sums of the block are this
            // thread's alone, and lie in rows of n, all of which are there.
            unsafe { gemm(size, x.place, w.place, (out, n), more, Parallelism::None) };
        }
    }
}

/// Rows and columns of an operand, where they lie or copied.
struct Part<'a> {
    place: Place,
    /// The first row, if its elements are neighbours.
    row: Option<&'a [f32]>,
    /// From the first element on, and how many lie from row to row, if those of a row are neighbours.
    rows: Option<(&'a [f32], usize)>,
}

impl<'a> Part<'a> {
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
            let place = Place { start: copy.as_ptr(), strides: [width as isize, 1] };
            return Self { place, row: Some(&copy[..width]), rows: Some((copy, width)) };
        }
        let [row, column] = from.strides();
        let place = from.place(index).from(rows.start, columns.start);
        let start = from.start(index)
            + rows.start as i64 * row as i64
            + columns.start as i64 * column as i64;
        let from_start = from.floats().get(start as usize..).filter(|_| column == 1);
        Self {
            place,
            row: from_start.and_then(|floats| floats.get(..width)),
            rows: from_start.zip(usize::try_from(row).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Cost = Cost { flops: 2, windows: false };

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
