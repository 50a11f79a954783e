//! Products cut into blocks, each of which one thread multiplies and finishes while it is in its cache.

use super::by_kernel::{self, ProductBlock, Sums};
use super::f32_operands::F32Operands;
use super::kernel::Kernel;
use super::outputs::ProductOutputs;
use super::pack_buffers::PackBuffers;
use crate::exec::cpu::operands::{ALONE, for_each, ranges};
use crate::exec::cpu::tape::{Machine, TILE};
use crate::exec::threads;

/// Multiplications a nanosecond by one thread.
const RATE: f64 = 100.0;
/// Nanoseconds to fetch an element of an operand from memory and to pack it.
const FETCH: f64 = 0.3;
/// The same for an element that is read where it lies or from a kept panel.
const READ: f64 = 0.05;
/// Nanoseconds until an epilogue has begun with a tile.
const START: f64 = 200.0;
/// Nanoseconds of a short product that are worth a block, where other threads spin for one.
const SHORT_BLOCK: u64 = 1_000 / threads::SMALLER as u64;
/// Fewest rows of a block whose multiplications take longer than its reads of panels.
const LEAST_ROWS: usize = 4;

pub(super) fn multiply<'a>(floats: &F32Operands<'_>, results: &mut ProductOutputs<'a>) {
    let [m, n, _] = floats.size;
    assert_eq!(results.sums_mut().len(), floats.count * m * n);
    let results = &*results;
    let cost = BlockCost {
        flops: results.flops(),
        fetch: if floats.panels.is_some() { READ } else { FETCH },
    };
    let work =
        |worker: &mut BlockWorker<'a>, block: ProductBlock| worker.run(floats, results, &block);
    let new = || BlockWorker { machine: None, copies: PackBuffers::default() };
    let pays = pays(floats.size, floats.count);
    let blocks = match floats.panels {
        Some(_) if !pays => short_blocks(floats.size),
        _ => size(floats.size, floats.count, cost, threads::count()),
    };
    if pays || blocks != [m, n] {
        return for_each(cut(floats.size, floats.count, blocks).collect(), new, work);
    }
    let mut worker = new();
    for index in 0..floats.count {
        work(&mut worker, ProductBlock { index, rows: 0..m, columns: 0..n });
    }
}

/// Returns whether the products are too small to pay for threads that sleep.
pub(super) fn is_for_one_thread(floats: &F32Operands<'_>) -> bool {
    !pays(floats.size, floats.count)
}

/// Returns whether the products are one call of the kernel, or one for each of the [`short_blocks`].
pub(super) fn is_preparable(floats: &F32Operands<'_>) -> bool {
    let size @ [_, n, k] = floats.size;
    is_for_one_thread(floats)
        && by_kernel::last_columns(Kernel::native(), [n, k]) == 0
        && (!floats.by_panels || by_kernel::is_one_pass(size))
}

/// Returns whether `count` products of `[m, n, k]` are worth several threads.
fn pays([m, n, k]: [usize; 3], count: usize) -> bool {
    let [m, n, k] = [m, n, k].map(|size| size as f64);
    let alone = (m * n * k / RATE).max((m + n) * k * FETCH / 3.0);
    // The bound is above that of other work, since blocks are slower than the whole.
    alone * count as f64 >= 1.5 * ALONE as f64
}

/// The cost of the work besides multiplications.
#[derive(Clone, Copy)]
struct BlockCost {
    /// Flops after each sum.
    flops: u64,
    /// Nanoseconds to fetch an element.
    fetch: f64,
}

impl BlockCost {
    /// Nanoseconds that a block of `[m, n, k]` takes, of products of `all` columns.
    fn of(self, [m, n, k]: [usize; 3], all: usize) -> f64 {
        // The epilogue runs over whole rows at once, or row by row.
        let tiles = if n == all { (m * n).div_ceil(TILE) } else { m * n.div_ceil(TILE) };
        let [m, n, k] = [m, n, k].map(|size| size as f64);
        let fetching = (m + n) * self.fetch * k;
        let after = m * n * self.flops as f64 / 40.0;
        let starts = if self.flops > 0 { tiles as f64 * START } else { 0.0 };
        m * n * k / RATE + fetching + after + starts
    }
}

/// Returns the rows and columns of the blocks that are done first, of `count` products of `[m, n, k]`.
fn size([m, n, k]: [usize; 3], count: usize, cost: BlockCost, threads: usize) -> [usize; 2] {
    if !pays([m, n, k], count) {
        return [m, n];
    }
    let rows = (0..8).map(|half| m.div_ceil(1 << half).next_multiple_of(8).min(m));
    // Whole panels.
    let panel = Kernel::native().panel_width;
    let panels = (0..5).flat_map(|power| [1 << power, 3 << power]);
    let share = n.div_ceil(threads).next_multiple_of(panel);
    let columns = panels.map(|panels| panels * panel).chain([share]);
    let columns = columns.filter(|&columns| columns < n).chain([n]);
    let pairs = rows.flat_map(|rows| columns.clone().map(move |columns| [rows, columns]));
    let time = |&[rows, columns]: &[usize; 2]| {
        let blocks = m.div_ceil(rows) * n.div_ceil(columns) * count;
        blocks.div_ceil(threads) as f64 * cost.of([rows, columns, k], n)
    };
    pairs.min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or([m, n])
}

/// Returns the rows and columns of the blocks of a short product by kept panels, of which other threads take some if they
/// spin. However a product is cut between panels, its sums are the same bits.
pub(super) fn short_blocks([m, n, k]: [usize; 3]) -> [usize; 2] {
    let parts = threads::short_parts(short_time([m, n, k]), SHORT_BLOCK);
    if parts == 1 || m >= LEAST_ROWS * parts {
        return [m.div_ceil(parts), n];
    }
    let panel = Kernel::native().panel_width;
    [m, (n.div_ceil(panel).div_ceil(parts) * panel).min(n)]
}

/// Nanoseconds of a short product by kept panels.
fn short_time([m, n, k]: [usize; 3]) -> u64 {
    ((m * n * k) as f64 / RATE).max((n * k) as f64 * READ) as u64
}

/// The blocks of `count` products, in the order of their rows.
pub(super) fn cut(
    [m, n, _]: [usize; 3],
    count: usize,
    [rows, columns]: [usize; 2],
) -> impl Iterator<Item = ProductBlock> {
    let bands = (0..count).flat_map(move |index| ranges(m, rows).map(move |rows| (index, rows)));
    bands.flat_map(move |(index, rows)| {
        ranges(n, columns).map(move |columns| ProductBlock { index, rows: rows.clone(), columns })
    })
}

/// The copies of one thread, and its machine, once an epilogue needs it.
struct BlockWorker<'a> {
    machine: Option<Machine<'a>>,
    copies: PackBuffers,
}

impl<'a> BlockWorker<'a> {
    fn run(
        &mut self,
        floats: &F32Operands<'_>,
        results: &ProductOutputs<'a>,
        block: &ProductBlock,
    ) {
        let [m, n, _] = floats.size;
        let ProductBlock { index, rows, columns } = block;
        let start = (index * m + rows.start) * n + columns.start;
        let sums = Sums { start: results.sum(start), stride: n };
        let links = || results.row_links(start, [rows.len(), columns.len()], n);
        let (kernel, copies) = (Kernel::native(), &mut self.copies);
        // SAFETY: the sums of the block belong to this thread alone, and lie in rows of n, all of which exist.
        if unsafe { by_kernel::multiply(kernel, floats, block, &links, sums, copies) } {
            return;
        }
        let machine = self.machine.get_or_insert_with(|| results.machine());
        // SAFETY: blocks are disjoint, nobody else has the results, and this thread has just written the sums of its
        // block.
        unsafe {
            if columns.len() == n {
                return results.finish(machine, start, rows.len() * n);
            }
            for row in 0..rows.len() {
                results.finish(machine, start + row * n, columns.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: BlockCost = BlockCost { flops: 2, fetch: FETCH };

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
    fn the_busiest_thread_has_little_more_than_its_share_where_threads_pay() {
        for mnk in [[512, 512, 512], [64, 1024, 1024], [1024, 1024, 1024], [1, 4096, 4096]] {
            let [rows, columns] = size(mnk, 1, COST, 16);
            let rounds = cut(mnk, 1, [rows, columns]).count().div_ceil(16);
            let busiest = rounds * rows * columns;
            let [m, n, _] = mnk;
            assert!(busiest * 16 <= m * n * 5 / 4, "{mnk:?}: {rounds} times {rows} by {columns}");
        }
        assert_eq!(size([64, 64, 64], 1, COST, 16), [64, 64]);
        assert_eq!(size([128, 128, 128], 640, COST, 16), [128, 128]);
    }
}
