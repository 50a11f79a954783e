//! Filters of 3×3 over windows that move by one element, by the minimal filtering F(2×2, 3×3) (Winograd, 1980; Lavin and
//! Gray, 2016). A tile of 2×2 results takes 16 multiplications a channel in place of 36: those of a transformed filter with
//! a transformed tile of 4×4 elements.

mod transforms;

use std::borrow::Cow;
use std::ops::Range;
use std::slice::from_raw_parts_mut;

use self::transforms::{Tiles, results_of_products, transform_filter, transform_tiles};
use super::by_images::{Convolution, ImageBlock, LaidBlock};
use super::f32_operands::F32Operands;
use super::kernel::{Kernel, PanelProduct, Panels, Rows};
use super::operand::Matrices;
use super::outputs::ProductOutputs;
use super::pack_buffers::PackBuffers;
use crate::exec::cpu::operands::{Images, ranges, rows_of_blocks};
use crate::exec::cpu::tape::Machine;
use crate::exec::{ArrangementOrder, threads};

/// Products of a tile and a filter.
const POINTS: usize = 16;
/// Fewest tiles of an image, channels and filters for which the transforms pay. Miri, which is slow, takes fewer.
const FEWEST: usize = if cfg!(miri) { 4 } else { 32 };
/// Most elements of the transformed tiles of a block, which stay in the second-level cache.
const BLOCK: usize = 192 << 10;
/// Channels whose tiles stay in the first-level cache, and filters whose products stay in the second.
const DEEP: usize = 192;
const HIGH: usize = 32;

/// Computes all results over `images` if their windows and filters are of this kind and the filters are a resident, so that
/// they are transformed once. Returns `false`, and computes nothing, for others.
pub(super) fn multiply(
    floats: &F32Operands<'_>,
    images: &Images<'_, '_>,
    shared: bool,
    results: &mut ProductOutputs<'_>,
) -> bool {
    let [m, _, k] = floats.size;
    let [height, width] = images.counts();
    let [down, along] = [height.div_ceil(2), width.div_ceil(2)];
    let threads = if shared { threads::count() } else { 1 };
    if !images.are_dense_3x3() || (k / 9).min(m).min(down * along) < FEWEST {
        return false;
    }
    let Some(filters) = transformed(&floats.x, [m, k / 9]) else { return false };
    let (rows, some) = block_size([down, along], floats.size, floats.count, threads);
    let layout = images.layout(height.min(2 * rows));
    let convolution = Convolution::new(floats, images, layout, results);
    let work = WinogradWork { convolution: &convolution, filters, along };
    let new = || WinogradWorker::new(&work);
    convolution.for_each_block([2 * rows, some], threads, new, WinogradWorker::run);
    true
}

/// The rows of tiles and the filters of a block.
fn block_size(
    [down, along]: [usize; 2],
    [m, _, k]: [usize; 3],
    count: usize,
    threads: usize,
) -> (usize, usize) {
    let most = (BLOCK / (POINTS * k / 9 * along)).clamp(1, down);
    // Blocks of about equal heights.
    let mut rows = down.div_ceil(down.div_ceil(most));
    let blocks = |rows: usize| count * down.div_ceil(rows);
    if blocks(rows) > threads {
        rows = rows_of_blocks([down, most], 1, count, threads);
    }
    while blocks(rows) < threads && rows > 1 && rows * along >= 2 * FEWEST {
        rows = rows.div_ceil(2);
    }
    let splits = threads.div_ceil(blocks(rows)).min(m / FEWEST);
    (rows, m.div_ceil(splits.max(1)).next_multiple_of(8))
}

/// The work that all threads share.
struct WinogradWork<'w, 'c, 'a> {
    convolution: &'w Convolution<'c, 'a>,
    /// The transformed filters: for each point the filters, each a row of channels.
    filters: Cow<'a, [f32]>,
    /// Tiles of a row.
    along: usize,
}

/// The transformed filters, each of so many channels, if they are a resident that all products share.
fn transformed<'a>(filters: &Matrices<'a>, [m, channels]: [usize; 2]) -> Option<Cow<'a, [f32]>> {
    let k = 9 * channels;
    let strides @ [row, column] = filters.strides();
    if !filters.is_worth_panels([k, m]) || !filters.is_shared() || column != 1 || row < 0 {
        return None;
    }
    let make = || {
        let from = &filters.floats()[filters.start(0) as usize..];
        let mut all = vec![0.0; POINTS * m * channels];
        for filter in 0..m {
            for channel in 0..channels {
                let element = |at: usize| from[filter * strides[0] as usize + 9 * channel + at];
                let points = transform_filter(&std::array::from_fn(element));
                for (point, value) in points.into_iter().enumerate() {
                    all[(point * m + filter) * channels + channel] = value;
                }
            }
        }
        all
    };
    let key = filters.key(ArrangementOrder::WinogradFilters, [k, m]);
    let kept = filters.arranged.and_then(|kept| kept.get(key, POINTS * m * channels, make));
    Some(kept.map_or_else(|| Cow::Owned(make()), Cow::Borrowed))
}

/// A thread's copies and machine.
struct WinogradWorker<'w, 'c, 'a> {
    work: &'w WinogradWork<'w, 'c, 'a>,
    machine: Machine<'c>,
    laid: LaidBlock,
    /// The transformed tiles of the block that is laid out: for each point the channels, each a row of tiles.
    tiles: Vec<f32>,
    /// For each point the products of some filters, each a row of tiles.
    products: Vec<f32>,
    sums: Vec<f32>,
    copies: PackBuffers,
}

impl<'w, 'c, 'a> WinogradWorker<'w, 'c, 'a> {
    fn new(work: &'w WinogradWork<'w, 'c, 'a>) -> Self {
        Self {
            work,
            machine: work.convolution.results.machine(),
            laid: LaidBlock::new(work.convolution),
            tiles: Vec::new(),
            products: Vec::new(),
            sums: Vec::new(),
            copies: PackBuffers::default(),
        }
    }

    fn run(&mut self, block: &ImageBlock) {
        let &WinogradWork { convolution, along, .. } = self.work;
        let channels = convolution.floats.size[2] / 9;
        let tiles = Tiles { down: block.rows.div_ceil(2), along };
        if self.laid.lay_out(convolution, block) {
            let (laid, layout) = (&self.laid.elements, &convolution.layout);
            self.tiles.resize(POINTS * tiles.pitch(channels), 0.0);
            for channel in 0..channels {
                let image = &laid[channel * layout.channel..];
                let image = Rows { data: image, stride: layout.pitch };
                let to = &mut self.tiles[channel * tiles.len()..];
                transform_tiles(image, block.rows + 2, tiles, tiles.pitch(channels), to);
            }
        }
        let mut is_finite = true;
        for filters in ranges(block.filters.len(), HIGH) {
            let filters = block.filters.start + filters.start..block.filters.start + filters.end;
            self.multiply(&filters, tiles, channels);
            is_finite &= self.write(block, &filters, tiles);
        }
        // SAFETY: blocks are disjoint, nobody else has the results, and the sums are computed first.
        unsafe {
            // Differences of infinities are NaN, where a sum of products may be infinite.
            if !is_finite {
                let own = (&mut self.sums, &mut self.copies);
                convolution.add_up(block, &self.laid.elements, own);
            }
            convolution.finish(block, &mut self.machine);
        }
    }

    /// Multiplies `filters` with all tiles.
    fn multiply(&mut self, filters: &Range<usize>, tiles: Tiles, channels: usize) {
        let (kernel, [m, ..]) = (Kernel::native(), self.work.convolution.floats.size);
        let pitch = tiles.pitch(filters.len());
        self.products.resize(POINTS * pitch, 0.0);
        for point in 0..POINTS {
            for depth in ranges(channels, channels.div_ceil(channels.div_ceil(DEEP))) {
                let first = (point * m + filters.start) * channels + depth.start;
                let x = Rows { data: &self.work.filters[first..], stride: channels };
                let first = point * tiles.pitch(channels) + depth.start * tiles.len();
                let w = Rows { data: &self.tiles[first..], stride: tiles.len() };
                let size = [filters.len(), tiles.len(), depth.len()];
                let product = PanelProduct { size, x, w: Panels::InPlace(w) };
                let out =
                    self.products[point * pitch..][..filters.len() * tiles.len()].as_mut_ptr();
                // SAFETY: all products exist and are this thread's own. The first step writes all of them.
                unsafe { kernel.panels(&product, out, tiles.len(), depth.start > 0) };
            }
        }
    }

    /// Writes the sums of `filters`. Returns whether all are finite.
    fn write(&mut self, block: &ImageBlock, filters: &Range<usize>, tiles: Tiles) -> bool {
        let convolution = self.work.convolution;
        let [_, width] = convolution.images.counts();
        let pitch = tiles.pitch(filters.len());
        let mut is_finite = true;
        for (at, filter) in filters.clone().enumerate() {
            let sum = convolution.results.sum(convolution.start(block, filter));
            // SAFETY: the results have all rows of the filter, and they belong to this block alone.
            let sums = unsafe { from_raw_parts_mut(sum, block.rows * width) };
            is_finite &=
                results_of_products(&self.products[at * tiles.len()..], pitch, tiles, width, sums);
        }
        is_finite
    }
}
