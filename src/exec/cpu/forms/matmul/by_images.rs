//! Products of filters with windows of images: blocks of images are laid out once for all elements of a window.

use std::ops::Range;

use super::by_kernel::{Copies, Sums, rows_of, steps};
use super::floats::Floats;
use super::kernel::{Kernel, PanelProduct, Panels, Rows};
use super::outputs::ProductOutputs;
use crate::exec::cpu::operands::{BlockLayout, Images, copy_rows, for_each};
use crate::exec::cpu::tape::Machine;
use crate::exec::threads;

/// Most elements of a block, and most sums of a block. Both lie in the second-level cache beside some filters.
const BLOCK: usize = 96 << 10;
const SUMS: usize = 64 << 10;
/// Most elements of a block of a single row of windows.
const LARGEST: usize = 512 << 10;
/// Most elements of a window that are multiplied at a time: those of some windows stay in the first-level cache.
const DEEP: usize = 320;
/// Filters that stay in the second-level cache beside a block.
const HIGH: usize = 96;
/// Fewest filters for which a block is laid out again by another thread.
const FEWEST: usize = 32;

/// Windows of some rows of an image, and some filters.
struct ImageBlock {
    index: usize,
    first: usize,
    rows: usize,
    filters: Range<usize>,
}

/// The work that all threads share.
struct Convolution<'c, 'a> {
    floats: &'c Floats<'a>,
    images: &'c Images<'c, 'a>,
    layout: BlockLayout,
    /// The place of each element of a window in a block.
    offsets: Vec<usize>,
    results: &'c ProductOutputs<'c>,
}

/// Computes all results over `images`, on several threads if that pays. Returns `false`, and computes nothing, if blocks
/// would be too large.
pub(super) fn multiply(
    floats: &Floats<'_>,
    images: &Images<'_, '_>,
    shared: bool,
    results: &mut ProductOutputs<'_>,
) -> bool {
    let [m, n, _] = floats.size;
    assert_eq!(results.sums_mut().len(), floats.count * m * n);
    let threads = if shared { threads::count() } else { 1 };
    let Some((rows, filters)) = block_size(images, m, floats.count, threads) else { return false };
    let layout = images.layout(rows);
    let offsets = images.offsets(&layout);
    let work = Convolution { floats, images, layout, offsets, results };
    let [height, _] = images.counts();
    let pieces =
        |all: usize, per: usize| (0..all).step_by(per).map(move |at| at..all.min(at + per));
    let blocks = (0..floats.count).flat_map(|index| {
        pieces(height, rows).flat_map(move |rows| {
            let block =
                move |filters| ImageBlock { index, first: rows.start, rows: rows.len(), filters };
            pieces(m, filters).map(block)
        })
    });
    let blocks: Vec<ImageBlock> = blocks.collect();
    let new = || ImageWorker::new(&work);
    if threads > 1 {
        for_each(blocks, new, |worker, block| worker.run(&block));
    } else {
        let mut worker = new();
        blocks.iter().for_each(|block| worker.run(block));
    }
    true
}

/// The rows of windows and the filters of a block, of products with `m` filters each; `None` if blocks would be too large.
fn block_size(
    images: &Images<'_, '_>,
    m: usize,
    count: usize,
    threads: usize,
) -> Option<(usize, usize)> {
    let [height, width] = images.counts();
    let fits = |rows: usize, [block, sums]: [usize; 2]| {
        let layout = images.layout(rows);
        layout.len <= block && m * layout.places(rows, width) <= sums
    };
    if !fits(1, [LARGEST; 2]) {
        return None;
    }
    // Blocks of about equal heights.
    let mut parts = 1;
    while parts < height && !fits(height.div_ceil(parts), [BLOCK, SUMS]) {
        parts += 1;
    }
    let blocks = |rows: usize| count * height.div_ceil(rows);
    let mut rows = height.div_ceil(parts);
    if threads == 1 {
        return Some((rows, m));
    }
    // Two blocks a thread let a late thread leave one to the others.
    let splits = (2 * threads).div_ceil(blocks(rows)).min(m.div_ceil(FEWEST));
    let filters = m.div_ceil(splits).next_multiple_of(8);
    while rows > 1 && blocks(rows) * m.div_ceil(filters) < threads {
        rows = rows.div_ceil(2);
    }
    Some((rows, filters))
}

/// A thread's copies and machine.
struct ImageWorker<'w, 'c, 'a> {
    work: &'w Convolution<'c, 'a>,
    machine: Machine<'c>,
    block: Vec<f32>,
    sums: Vec<f32>,
    copies: Copies,
    /// The image and the first row of the block that is laid out.
    laid: Option<[usize; 2]>,
}

impl<'w, 'c, 'a> ImageWorker<'w, 'c, 'a> {
    fn new(work: &'w Convolution<'c, 'a>) -> Self {
        Self {
            work,
            machine: work.results.machine(),
            block: vec![0.0; work.layout.len],
            sums: Vec::new(),
            copies: Copies::default(),
            laid: None,
        }
    }

    fn run(&mut self, &ImageBlock { index, first, rows, ref filters }: &ImageBlock) {
        let Convolution { floats, images, layout, offsets, results } = self.work;
        let [m, n, k] = floats.size;
        let [_, width] = images.counts();
        if self.laid != Some([index, first]) {
            images.lay_out(index, layout, (first, rows), &mut self.block);
            self.laid = Some([index, first]);
        }
        let places = layout.places(rows, width);
        let start = |filter: usize| (index * m + filter) * n + first * width;
        let direct = layout.pitch == width;
        let sums = if direct {
            Sums { start: results.sum(start(filters.start)), stride: n }
        } else {
            self.sums.resize(filters.len() * places, 0.0);
            Sums { start: self.sums.as_mut_ptr(), stride: places }
        };
        let kernel = Kernel::native();
        for depth in steps(k, k.div_ceil(k.div_ceil(DEEP))) {
            let x = rows_of(&floats.x, index, [filters, &depth], &mut self.copies.x);
            let w = Panels::Scattered(&self.block, &offsets[depth.clone()]);
            for row in (0..filters.len()).step_by(HIGH) {
                let size = [HIGH.min(filters.len() - row), places, depth.len()];
                let x = Rows { data: &x.data[row * x.stride..], ..x };
                let start = sums.start.wrapping_add(row * sums.stride);
                // SAFETY: the sums are this thread's own, or lie in the results, where they belong to this block alone.
                // The first step writes all of them.
                unsafe {
                    let product = PanelProduct { size, x, w };
                    kernel.panels(&product, start, sums.stride, depth.start > 0);
                }
            }
        }
        for filter in filters.clone() {
            if !direct {
                let own = &self.sums[(filter - filters.start) * places..][..places];
                // SAFETY: the results have all rows of the filter, and they belong to this block alone.
                let to = unsafe {
                    std::slice::from_raw_parts_mut(results.sum(start(filter)), rows * width)
                };
                copy_rows(own, layout.pitch, width, to);
            }
            // SAFETY: blocks are disjoint, nobody else has the results, and this thread has just written these sums.
            unsafe { results.finish(&mut self.machine, start(filter), rows * width) };
        }
    }
}
