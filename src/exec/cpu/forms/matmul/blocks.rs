//! Products cut into blocks, each of which one thread multiplies and finishes while it is in its cache.

use std::ops::Range;

use super::kernel::{Kernel, PanelBlock, WidePanels};
use super::operand::{Floats, Matrices};
use super::outputs::ProductOutputs;
use super::panels::{PanelScratch, Panels, Side};
use crate::cost::WINDOW_FLOPS;
use crate::error::DeviceError;
use crate::exec::cpu::CpuPool;
use crate::exec::cpu::operands::{ALONE, for_each};
use crate::exec::cpu::tape::Machine;
use crate::exec::threads;

/// Multiplications a nanosecond by one thread.
const RATE: f64 = 100.0;
/// Nanoseconds to fetch an element of an operand from memory.
const FETCH: f64 = 0.1;
/// Flops a nanosecond by one thread that computes the positions of elements.
const POSITIONS: f64 = 8.0;
/// Nanoseconds to compute an element of a window.
const WINDOW: f64 = WINDOW_FLOPS / POSITIONS;
/// Sums of a block that stay in the second-level cache.
const SUMS: usize = 1 << 16;
/// Elements of the right operand that a thread packs at a time, and that stay in the second-level cache.
const PACKED: usize = 48 << 10;
/// Elements of the left operand that stay in the second-level cache beside those.
const ROWS: usize = 40 << 10;
/// Most elements of panels that are packed before the blocks begin.
const MOST_PANELS: usize = 4 << 20;
/// Most columns of a block.
const COLUMNS: usize = 1024;
/// Blocks a thread, if there are so many.
const BLOCKS: usize = 4;

/// A block: some rows and columns of one of the products.
#[derive(Debug)]
struct ProductBlock {
    index: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// How the products are cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    /// Rows and columns of a block.
    rows: usize,
    columns: usize,
    /// Whether the panels of the left and of the right operand are packed before the blocks begin.
    whole: [bool; 2],
}

pub(super) fn multiply(
    floats: &Floats<'_>,
    results: &mut ProductOutputs<'_>,
    pool: &CpuPool,
) -> Result<(), DeviceError> {
    let [m, n, _] = floats.size;
    assert_eq!(results.sums_mut().len(), floats.count * m * n);
    let results = &*results;
    let kernel = Kernel::native();
    let threads = if pays(floats) { threads::count() } else { 1 };
    let cut = Cut::of(kernel, floats, [false; 2], threads);
    let whole = |side: Side, operand| {
        cut.whole[side as usize].then(|| Panels::of(kernel, operand, side, pool)).transpose()
    };
    let whole = [whole(Side::Left, &floats.x)?, whole(Side::Right, &floats.w)?];
    let work = |worker: &mut BlockWorker<'_>, block: ProductBlock| {
        worker.run(floats, &whole, results, &block);
    };
    let new = || BlockWorker {
        kernel,
        machine: results.machine(),
        x: Vec::new(),
        w: Vec::new(),
        scratch: PanelScratch::default(),
    };
    if threads > 1 {
        for_each(cut.blocks(floats.size, floats.count).collect(), new, work);
    } else {
        let mut worker = new();
        cut.blocks(floats.size, floats.count).for_each(|block| work(&mut worker, block));
    }
    Ok(())
}

/// Returns whether the products are worth several threads.
fn pays(floats: &Floats<'_>) -> bool {
    let [m, n, k] = floats.size.map(|size| size as f64);
    let windows = if floats.w.is_computed() { n * k * WINDOW } else { 0.0 };
    let alone = (m * n * k / RATE).max((m + n) * k * FETCH) + windows;
    alone * floats.count as f64 >= 2.0 * ALONE as f64
}

/// Returns whether one thread multiplies the products, with one call of `gemm` each and no copy of an operand. The sums
/// must be the results.
pub(super) fn is_one_call(floats: &Floats<'_>) -> bool {
    let copied = floats.x.is_only_copied() || floats.w.is_only_copied();
    !pays(floats) && floats.size[0] > 1 && !copied && floats.w.strides()[1] == 1
}

impl Cut {
    /// The cut for `threads`. The panels of the `kept` operands are there already.
    fn of(kernel: &Kernel, floats: &Floats<'_>, kept: [bool; 2], threads: usize) -> Self {
        let Floats { size: [m, n, k], count, ref x, ref w } = *floats;
        let depth = kernel.depth.min(k);
        let [left, right] =
            [(Side::Left, x, m), (Side::Right, w, n)].map(|(side, operand, lines)| {
                Panels::len(kernel, side, [lines, k], operand.different())
            });
        // The smaller operand is packed once, and the other one by the blocks.
        let is_wide = !kept[1] && (kept[0] || left <= right || w.is_only_copied());
        let (mut rows, mut columns) = (m, n);
        if is_wide {
            columns = columns.min((PACKED / depth).clamp(4 * kernel.columns, COLUMNS));
        } else {
            columns = columns.min(COLUMNS);
            rows = rows.min((SUMS / columns).clamp(8 * kernel.rows, 256));
        }
        let per = |all: usize, parts: usize, unit: usize| {
            all.div_ceil(parts).next_multiple_of(unit).min(all)
        };
        rows = per(m, m.div_ceil(rows), kernel.rows);
        columns = per(n, n.div_ceil(columns), kernel.columns);
        let wanted = if threads > 1 { BLOCKS * threads } else { 1 };
        let blocks = |rows, columns| m.div_ceil(rows) * n.div_ceil(columns) * count;
        while blocks(rows, columns) < wanted {
            let more = |all: usize, per: usize| all.div_ceil(all.div_ceil(per) + 1);
            let (fewer_rows, fewer_columns) = (
                more(m, rows).next_multiple_of(kernel.rows),
                more(n, columns).next_multiple_of(kernel.columns),
            );
            let by_columns = fewer_columns < columns && (is_wide || fewer_rows >= rows);
            if by_columns && fewer_columns >= 2 * kernel.columns {
                columns = fewer_columns;
            } else if fewer_rows < rows && fewer_rows >= kernel.rows {
                rows = fewer_rows;
            } else if fewer_columns < columns {
                columns = fewer_columns;
            } else {
                break;
            }
        }
        let again = |blocks: usize, operand: &Matrices<'_>, len: usize| {
            (blocks > 1 || operand.different() < count) && len <= MOST_PANELS
        };
        let whole = [
            kept[0] || is_wide && again(n.div_ceil(columns), x, left),
            kept[1] || !is_wide && again(m.div_ceil(rows), w, right),
        ];
        Self { rows, columns, whole }
    }

    fn blocks(self, [m, n, _]: [usize; 3], count: usize) -> impl Iterator<Item = ProductBlock> {
        let pieces = |all: usize, per: usize| {
            (0..all).step_by(per.max(1)).map(move |start| start..all.min(start + per))
        };
        let Self { rows, columns, .. } = self;
        let bands =
            (0..count).flat_map(move |index| pieces(m, rows).map(move |rows| (index, rows)));
        bands.flat_map(move |(index, rows)| {
            pieces(n, columns).map(move |columns| ProductBlock {
                index,
                rows: rows.clone(),
                columns,
            })
        })
    }
}

/// The machine and the panels of one thread.
struct BlockWorker<'a> {
    kernel: &'static Kernel,
    machine: Machine<'a>,
    /// Panels of a part of the left operand.
    x: Vec<f32>,
    /// Panels of a part of the right operand.
    w: Vec<f32>,
    scratch: PanelScratch,
}

impl BlockWorker<'_> {
    fn run(
        &mut self,
        floats: &Floats<'_>,
        whole: &[Option<Panels>; 2],
        results: &ProductOutputs<'_>,
        block: &ProductBlock,
    ) {
        let [m, n, _] = floats.size;
        self.multiply(floats, whole, results, block);
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

    /// Computes the sums of `block`, in steps along k.
    fn multiply(
        &mut self,
        floats: &Floats<'_>,
        whole: &[Option<Panels>; 2],
        results: &ProductOutputs<'_>,
        block: &ProductBlock,
    ) {
        let Floats { size: [m, n, k], ref x, ref w, .. } = *floats;
        let Self { kernel, x: x_panels, w: w_panels, scratch, .. } = self;
        let ProductBlock { index, ref rows, ref columns } = *block;
        let out = results.sum((index * m + rows.start) * n + columns.start);
        let in_place = in_place(kernel, floats, block).filter(|_| whole[1].is_none());
        for from in (0..k).step_by(kernel.depth) {
            let depth = from..k.min(from + kernel.depth);
            let x = match &whole[0] {
                Some(panels) => panels.part(x.different_of(index), &depth, rows.start),
                None => {
                    x_panels.resize(rows.len() * depth.len(), 0.0);
                    let part = [depth.clone(), rows.clone()];
                    Side::Left.pack(kernel, x, index, part, x_panels, scratch);
                    &x_panels[..]
                }
            };
            let step = kernel.columns;
            let w = match (&whole[1], in_place) {
                (Some(panels), _) => {
                    let data = panels.part(w.different_of(index), &depth, columns.start);
                    WidePanels { data, step, panel: step * depth.len() }
                }
                (None, Some((data, row))) => {
                    WidePanels { data: &data[from * row..], step: row, panel: step }
                }
                (None, None) => {
                    let len = Side::Right.padded(kernel, columns.len()) * depth.len();
                    w_panels.resize(len, 0.0);
                    let part = [depth.clone(), columns.clone()];
                    Side::Right.pack(kernel, w, index, part, w_panels, scratch);
                    WidePanels { data: w_panels, step, panel: step * depth.len() }
                }
            };
            let some = (ROWS / depth.len()).next_multiple_of(kernel.rows);
            for row in (0..rows.len()).step_by(some) {
                let part = PanelBlock {
                    rows: some.min(rows.len() - row),
                    columns: columns.len(),
                    depth: depth.len(),
                    x: &x[row * depth.len()..],
                    w,
                };
                // SAFETY: the sums of the block belong to this thread alone. They lie in rows of n, all of which exist.
                // The first part of k wrote all of them.
                unsafe { kernel.multiply(&part, out.add(row * n), n, from > 0) };
            }
        }
    }
}

/// The elements of the right operand from those of `block` on, and the distance from row to row, if the few rows of the
/// block read them where they lie. That reads all of the last panel.
fn in_place<'a>(
    kernel: &Kernel,
    floats: &'a Floats<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
) -> Option<(&'a [f32], usize)> {
    let [_, _, k] = floats.size;
    let source = floats.w.source(*index).filter(|_| rows.len() <= 2 * kernel.rows)?;
    let [(_, row), (_, 1)] = [source.rows.as_slice(), &source.columns].map(|axes| axes[0]) else {
        return None;
    };
    let is_plain = source.rows.len() == 1 && source.columns.len() == 1;
    let start = usize::try_from(source.start).ok()? + columns.start;
    let row = usize::try_from(row).ok().filter(|_| is_plain)?;
    let end = (k - 1) * row + Side::Right.padded(kernel, columns.len());
    source.data.get(start..).filter(|data| end <= data.len()).map(|data| (data, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_each_element_once() {
        for (m, n, rows, columns) in [(1, 1, 1, 1), (5, 7, 2, 3), (8, 64, 8, 32), (3, 9, 5, 100)] {
            let mut seen = vec![0; 2 * m * n];
            let cut = Cut { rows, columns, whole: [false; 2] };
            for block in cut.blocks([m, n, 1], 2) {
                for row in block.rows {
                    for column in block.columns.clone() {
                        seen[(block.index * m + row) * n + column] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "{m} {n} {rows} {columns}");
        }
    }
}
