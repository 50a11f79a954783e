//! Parts of an image that are laid out with their border, and the loops over their windows.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use std::marker::PhantomData;
use std::ops::Range;

use super::image::{ChannelBlock, PixelImages};
use crate::base::shape::Window;
use crate::exec::cpu::vectors::SimdVector;

/// Vectors of channels that are laid out at once: their elements of a pixel are neighbours in memory.
pub(super) const GROUP: usize = 4;

/// Some rows of windows of an image, and memory for a vector of channels of all pixels that they cover, borders included. It
/// stays in the first-level cache.
pub(super) struct LaidRows<'l, V: SimdVector> {
    rows: usize,
    columns: usize,
    windows: [Window; 2],
    /// Pixels of a line.
    pitch: usize,
    /// The pixels inside of the border: of the image, and those before them that are laid out.
    inside: [(Range<usize>, usize); 2],
    /// Elements of the memory for a vector of channels.
    size: usize,
    laid: &'l mut [f32],
    vector: PhantomData<V>,
}

impl<'l, V: SimdVector> LaidRows<'l, V> {
    pub fn new(images: &PixelImages<'_>, rows: Range<usize>, laid: &'l mut Vec<f32>) -> Self {
        let &PixelImages { down, along, .. } = images;
        let pitch = along.window.extent(along.count);
        laid.clear();
        let size = down.window.extent(rows.len()) * pitch * V::LEN;
        laid.resize(GROUP * size, 0.0);
        Self {
            rows: rows.len(),
            columns: along.count,
            windows: [down.window, along.window],
            pitch,
            inside: [down.covered(rows), along.covered(0..along.count)],
            size,
            laid,
            vector: PhantomData,
        }
    }

    /// Lays out the pixels of an image at `from`, of at most [`GROUP`] vectors of channels. Pixels of the border are zeros.
    ///
    /// # Safety
    /// As for [`any_rows`].
    #[inline(always)]
    pub unsafe fn lay_out(
        &mut self,
        images: &PixelImages<'_>,
        from: *const f32,
        group: Range<usize>,
    ) {
        let &PixelImages { channels, along, .. } = images;
        let [(lines, above), (pixels, before)] = &self.inside;
        let whole = group.len() / V::LEN;
        let rest = group.len() % V::LEN;
        assert!((lines.len() + above) * self.pitch * V::LEN <= self.size);
        assert!(pixels.len() + before <= self.pitch);
        for (y, line) in lines.clone().enumerate() {
            let from = from.wrapping_add((line * along.size + pixels.start) * channels);
            let to = ((above + y) * self.pitch + before) * V::LEN;
            for x in 0..pixels.len() {
                let from = from.wrapping_add(x * channels + group.start);
                // SAFETY: as the caller promises. The pixel has its place for each vector.
                unsafe {
                    let to = self.laid.as_mut_ptr().add(to + x * V::LEN);
                    for at in 0..whole {
                        V::load(from.add(at * V::LEN)).store(to.add(at * self.size));
                    }
                    if rest > 0 {
                        let last = V::load_first(from.add(whole * V::LEN), rest);
                        last.store(to.add(whole * self.size));
                    }
                }
            }
        }
    }

    /// Writes the results of all windows to `out`, for vector `at` of the channels that are laid out.
    ///
    /// # Safety
    /// As for [`any_rows`].
    #[inline(always)]
    pub unsafe fn sum_up(&self, at: usize, block: &ChannelBlock<'_, V>, out: *mut f32) {
        let is = |size, step| {
            let window = Window { size, step, dilation: 1 };
            self.windows == [window; 2]
        };
        let laid = self.laid[at * self.size..][..self.size].as_ptr();
        // SAFETY: as the caller promises.
        unsafe {
            if is(3, 1) {
                self.sum_tiles::<3, 1>(laid, block, out);
            } else if is(3, 2) {
                self.sum_tiles::<3, 2>(laid, block, out);
            } else if is(5, 1) {
                self.sum_tiles::<5, 1>(laid, block, out);
            } else if is(5, 2) {
                self.sum_tiles::<5, 2>(laid, block, out);
            } else {
                self.sum_windows(laid, block, out);
            }
        }
    }

    /// As [`sum_up`](Self::sum_up), for windows of `SIZE`² at steps of `STEP`.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn sum_tiles<const SIZE: usize, const STEP: usize>(
        &self,
        laid: *const f32,
        block: &ChannelBlock<'_, V>,
        out: *mut f32,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut weights = [[V::splat(0.0); SIZE]; SIZE];
            for i in 0..SIZE {
                for j in 0..SIZE {
                    let tap = (i * SIZE + j) * block.images.channels;
                    weights[i][j] = block.load(block.weights.wrapping_add(tap));
                }
            }
            // As many sums as there are registers for.
            if V::LEN == 16 && self.columns >= 7 {
                self.sum_tiles_of::<SIZE, STEP, 7>(laid, block, &weights, out);
            } else if self.columns >= 4 {
                self.sum_tiles_of::<SIZE, STEP, 4>(laid, block, &weights, out);
            } else {
                self.sum_tiles_of::<SIZE, STEP, 1>(laid, block, &weights, out);
            }
        }
    }

    /// As [`sum_tiles`](Self::sum_tiles), `N` columns at a time. A row has at least as many.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn sum_tiles_of<const SIZE: usize, const STEP: usize, const N: usize>(
        &self,
        laid: *const f32,
        block: &ChannelBlock<'_, V>,
        weights: &[[V; SIZE]; SIZE],
        out: *mut f32,
    ) {
        let channels = block.images.channels;
        for row in 0..self.rows {
            for column in (0..self.columns).step_by(N) {
                // The last columns may be computed twice.
                let column = column.min(self.columns - N);
                let first = (row * self.pitch + column) * STEP * V::LEN;
                // SAFETY: as the caller promises.
                unsafe {
                    let mut sums = [V::splat(0.0); N];
                    for i in 0..SIZE {
                        let line = laid.add(first + i * self.pitch * V::LEN);
                        for j in 0..SIZE + (N - 1) * STEP {
                            let pixel = V::load(line.add(j * V::LEN));
                            for n in 0..N {
                                if j >= n * STEP && j - n * STEP < SIZE {
                                    sums[n] = sums[n].add_product(pixel, weights[i][j - n * STEP]);
                                }
                            }
                        }
                    }
                    let to = (row * self.columns + column) * channels;
                    block.store(sums, out.wrapping_add(to));
                }
            }
        }
    }

    /// As [`sum_up`](Self::sum_up), for windows of any size.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn sum_windows(&self, laid: *const f32, block: &ChannelBlock<'_, V>, out: *mut f32) {
        let channels = block.images.channels;
        let [down, along] = self.windows;
        for row in 0..self.rows {
            for column in 0..self.columns {
                // SAFETY: as the caller promises.
                unsafe {
                    let (mut sum, mut weight) = (V::splat(0.0), block.weights);
                    for i in 0..down.size {
                        let line = (row * down.step + i * down.dilation) * self.pitch;
                        for j in 0..along.size {
                            let pixel = line + column * along.step + j * along.dilation;
                            let pixel = V::load(laid.add(pixel * V::LEN));
                            sum = sum.add_product(pixel, block.load(weight));
                            weight = weight.wrapping_add(channels);
                        }
                    }
                    let to = (row * self.columns + column) * channels;
                    block.store([sum], out.wrapping_add(to));
                }
            }
        }
    }
}
