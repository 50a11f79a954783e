//! Products of filters with windows of images: blocks of images are laid out once for all elements of a window.

use std::ops::Range;
use std::slice::from_raw_parts_mut;

use super::by_kernel::{Sums, rows_of};
use super::f32_operands::F32Operands;
use super::kernel::{Kernel, PanelProduct, Panels, Rows};
use super::outputs::ProductOutputs;
use super::pack_buffers::PackBuffers;
use crate::exec::cpu::operands::{
    BlockLayout, Images, copy_rows, for_each_if, ranges, rows_of_blocks,
};
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
pub(super) struct ImageBlock {
    pub index: usize,
    pub first: usize,
    pub rows: usize,
    pub filters: Range<usize>,
}

/// The work that all threads share.
pub(super) struct Convolution<'c, 'a> {
    pub floats: &'c F32Operands<'a>,
    pub images: &'c Images<'c, 'a>,
    pub layout: BlockLayout,
    /// The position of each element of a window in a block.
    offsets: Vec<usize>,
    pub results: &'c ProductOutputs<'c>,
}

/// Computes all results over `images`, on several threads if that pays. Returns `false`, and computes nothing, if blocks
/// would be too large.
pub(super) fn multiply(
    floats: &F32Operands<'_>,
    images: &Images<'_, '_>,
    shared: bool,
    results: &mut ProductOutputs<'_>,
) -> bool {
    let threads = if shared { threads::count() } else { 1 };
    let Some((rows, filters)) = block_size(images, floats.size[0], floats.count, threads) else {
        return false;
    };
    let work = Convolution::new(floats, images, images.layout(rows), results);
    let new = || ImageWorker::new(&work);
    work.for_each_block([rows, filters], threads, new, ImageWorker::run);
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
        layout.len <= block && m * layout.positions(rows, width) <= sums
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
    if blocks(rows) > threads {
        rows = rows_of_blocks([height, rows], 1, count, threads);
    }
    // Two blocks a thread let a late thread leave one to the others.
    let splits = (2 * threads).div_ceil(blocks(rows)).min(m.div_ceil(FEWEST));
    let filters = m.div_ceil(splits).next_multiple_of(8);
    while rows > 1 && blocks(rows) * m.div_ceil(filters) < threads {
        rows = rows.div_ceil(2);
    }
    Some((rows, filters))
}

impl<'c, 'a> Convolution<'c, 'a> {
    pub fn new(
        floats: &'c F32Operands<'a>,
        images: &'c Images<'c, 'a>,
        layout: BlockLayout,
        results: &'c mut ProductOutputs<'_>,
    ) -> Self {
        let [m, n, _] = floats.size;
        assert_eq!(results.sums_mut().len(), floats.count * m * n);
        let offsets = images.offsets(&layout);
        Self { floats, images, layout, offsets, results }
    }

    /// Does the work of all blocks of at most so many rows of windows and filters, on `threads` threads or on this one.
    pub fn for_each_block<S>(
        &self,
        [rows, filters]: [usize; 2],
        threads: usize,
        new: impl Fn() -> S + Sync + Send,
        run: impl Fn(&mut S, &ImageBlock) + Sync + Send,
    ) {
        let blocks = self.blocks(rows, filters);
        for_each_if(threads > 1, blocks, new, |worker, block| run(worker, &block));
    }

    fn blocks(&self, rows: usize, filters: usize) -> Vec<ImageBlock> {
        let ([height, _], [m, ..]) = (self.images.counts(), self.floats.size);
        let blocks = (0..self.floats.count).flat_map(|index| {
            ranges(height, rows).flat_map(move |rows| {
                let (first, rows) = (rows.start, rows.len());
                ranges(m, filters).map(move |filters| ImageBlock { index, first, rows, filters })
            })
        });
        blocks.collect()
    }

    /// The position of the first result of a block and of `filter` among all.
    pub fn start(&self, block: &ImageBlock, filter: usize) -> usize {
        let ([m, n, _], [_, width]) = (self.floats.size, self.images.counts());
        (block.index * m + filter) * n + block.first * width
    }

    /// Computes the sums of `block`, whose images are `laid` out.
    ///
    /// # Safety
    /// The results of the block belong to this call alone.
    pub unsafe fn add_up(
        &self,
        block: &ImageBlock,
        laid: &[f32],
        (own, copies): (&mut Vec<f32>, &mut PackBuffers),
    ) {
        let Self { floats, images, layout, offsets, results } = self;
        let [_, n, k] = floats.size;
        let [_, width] = images.counts();
        let ImageBlock { index, rows, ref filters, .. } = *block;
        let positions = layout.positions(rows, width);
        let direct = layout.pitch == width;
        let sums = if direct {
            Sums { start: results.sum(self.start(block, filters.start)), stride: n }
        } else {
            own.resize(filters.len() * positions, 0.0);
            Sums { start: own.as_mut_ptr(), stride: positions }
        };
        let kernel = Kernel::native();
        for depth in ranges(k, k.div_ceil(k.div_ceil(DEEP))) {
            let x = rows_of(&floats.x, index, [filters, &depth], &mut copies.x);
            let w = Panels::Scattered(laid, &offsets[depth.clone()]);
            for row in (0..filters.len()).step_by(HIGH) {
                let size = [HIGH.min(filters.len() - row), positions, depth.len()];
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
        if direct {
            return;
        }
        for (filter, own) in filters.clone().zip(own.chunks_exact(positions)) {
            // SAFETY: the results have all rows of the filter, and they belong to this block alone.
            let to =
                unsafe { from_raw_parts_mut(results.sum(self.start(block, filter)), rows * width) };
            copy_rows(own, layout.pitch, width, to);
        }
    }

    /// Computes the results of the sums of `block`.
    ///
    /// # Safety
    /// The sums were computed, and they and the results belong to this call alone.
    pub unsafe fn finish(&self, block: &ImageBlock, machine: &mut Machine<'_>) {
        let [_, width] = self.images.counts();
        for filter in block.filters.clone() {
            let start = self.start(block, filter);
            // SAFETY: as the caller promises.
            unsafe { self.results.finish(machine, start, block.rows * width) };
        }
    }
}

/// A thread's copies and machine.
struct ImageWorker<'w, 'c, 'a> {
    work: &'w Convolution<'c, 'a>,
    machine: Machine<'c>,
    laid: LaidBlock,
    sums: Vec<f32>,
    copies: PackBuffers,
}

/// The images of a block as they were laid out last.
pub(super) struct LaidBlock {
    pub elements: Vec<f32>,
    /// The image and the first row.
    of: Option<[usize; 2]>,
}

impl LaidBlock {
    pub fn new(work: &Convolution<'_, '_>) -> Self {
        Self { elements: vec![0.0; work.layout.len], of: None }
    }

    /// Lays out the images of `block`, unless they are. Returns whether they were not.
    pub fn lay_out(&mut self, work: &Convolution<'_, '_>, block: &ImageBlock) -> bool {
        let &ImageBlock { index, first, rows, .. } = block;
        let is_new = self.of != Some([index, first]);
        if is_new {
            work.images.lay_out(index, &work.layout, (first, rows), &mut self.elements);
            self.of = Some([index, first]);
        }
        is_new
    }
}

impl<'w, 'c, 'a> ImageWorker<'w, 'c, 'a> {
    fn new(work: &'w Convolution<'c, 'a>) -> Self {
        Self {
            work,
            machine: work.results.machine(),
            laid: LaidBlock::new(work),
            sums: Vec::new(),
            copies: PackBuffers::default(),
        }
    }

    fn run(&mut self, block: &ImageBlock) {
        self.laid.lay_out(self.work, block);
        let own = (&mut self.sums, &mut self.copies);
        // SAFETY: blocks are disjoint, nobody else has the results, and the sums are computed first.
        unsafe {
            self.work.add_up(block, &self.laid.elements, own);
            self.work.finish(block, &mut self.machine);
        }
    }
}
