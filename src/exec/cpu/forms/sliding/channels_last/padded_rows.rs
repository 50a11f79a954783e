//! Rows of an image that are copied with their border, and the loops over their windows.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use std::marker::PhantomData;
use std::ops::Range;

use super::image::{ChannelBlock, WindowedImages};
use crate::base::shape::Window;
use crate::exec::cpu::vectors::SimdVector;

/// Most vectors of channels that are copied at once. Their elements of a pixel are neighbours in memory.
pub(super) const GROUP: usize = 4;

/// Most elements of the copies of a group, unless a row needs more.
const MOST: usize = 16 << 10;

/// Some rows of windows of an image, and the pixels that they cover, borders included: a copy for each vector of channels of
/// a group.
pub(super) struct PaddedRows<'p, V: SimdVector> {
    rows: usize,
    columns: usize,
    windows: [Window; 2],
    /// Pixels of a line.
    pitch: usize,
    /// Along either axis, the pixels of the image that are covered, and the number of those of the border before them.
    inside: [(Range<usize>, usize); 2],
    /// Elements of the copy for a vector of channels.
    size: usize,
    padded: &'p mut [f32],
    vector: PhantomData<V>,
}

impl<'p, V: SimdVector> PaddedRows<'p, V> {
    /// Most rows of windows whose copies stay in the cache, at least one.
    pub fn most(images: &WindowedImages<'_>) -> usize {
        let &WindowedImages { down, along, .. } = images;
        let line = GROUP * V::LEN * along.window.extent(along.count);
        let lines = MOST / line;
        lines.saturating_sub(down.window.reach()) / down.window.step + 1
    }

    pub fn new(images: &WindowedImages<'_>, rows: Range<usize>, padded: &'p mut Vec<f32>) -> Self {
        let &WindowedImages { down, along, .. } = images;
        let pitch = along.window.extent(along.count);
        padded.clear();
        let size = down.window.extent(rows.len()) * pitch * V::LEN;
        padded.resize(GROUP * size, 0.0);
        Self {
            rows: rows.len(),
            columns: along.count,
            windows: [down.window, along.window],
            pitch,
            inside: [down.covered(rows), along.covered(0..along.count)],
            size,
            padded,
            vector: PhantomData,
        }
    }

    /// Copies the pixels of the image at `from`, of a group of channels. Pixels of the border are zeros.
    ///
    /// # Safety
    /// The processor has the instructions of `V`. The image has the size for which the rows were made.
    #[inline(always)]
    pub unsafe fn copy(
        &mut self,
        images: &WindowedImages<'_>,
        from: *const f32,
        group: Range<usize>,
    ) {
        let &WindowedImages { channels, along, .. } = images;
        let [(lines, above), (pixels, before)] = &self.inside;
        let whole = group.len() / V::LEN;
        let rest = group.len() % V::LEN;
        assert!((lines.len() + above) * self.pitch * V::LEN <= self.size);
        assert!(pixels.len() + before <= self.pitch);
        assert!(group.len() <= GROUP * V::LEN && group.end <= channels);
        for (y, line) in lines.clone().enumerate() {
            let from = from.wrapping_add((line * along.size + pixels.start) * channels);
            let to = ((above + y) * self.pitch + before) * V::LEN;
            for x in 0..pixels.len() {
                let from = from.wrapping_add(x * channels + group.start);
                // SAFETY: as the caller promises. The pixel has its place for each vector.
                unsafe {
                    let to = self.padded.as_mut_ptr().add(to + x * V::LEN);
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

    /// Writes the results of all windows to `out`, for vector `at` of the group that was copied last, which is `block`.
    ///
    /// # Safety
    /// The processor has the instructions of `V`. At `out` is room for the channels of all results.
    #[inline(always)]
    pub unsafe fn sum_windows(&self, at: usize, block: &ChannelBlock<'_, V>, out: *mut f32) {
        let is = |size, step| {
            let window = Window { size, step, dilation: 1 };
            self.windows == [window; 2]
        };
        let padded = self.padded[at * self.size..][..self.size].as_ptr();
        // SAFETY: as the caller promises.
        unsafe {
            if is(3, 1) {
                self.sum_tiles::<3, 1>(padded, block, out);
            } else if is(3, 2) {
                self.sum_tiles::<3, 2>(padded, block, out);
            } else if is(5, 1) {
                self.sum_tiles::<5, 1>(padded, block, out);
            } else if is(5, 2) {
                self.sum_tiles::<5, 2>(padded, block, out);
            } else {
                self.sum_any_windows(padded, block, out);
            }
        }
    }

    /// As [`sum_windows`](Self::sum_windows), for windows of `SIZE`² at steps of `STEP`. The pixels are at `padded`.
    ///
    /// # Safety
    /// As for [`sum_windows`](Self::sum_windows). The pixels that the windows cover exist.
    #[inline(always)]
    unsafe fn sum_tiles<const SIZE: usize, const STEP: usize>(
        &self,
        padded: *const f32,
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
                self.sum_tiles_of::<SIZE, STEP, 7>(padded, block, &weights, out);
            } else if self.columns >= 4 {
                self.sum_tiles_of::<SIZE, STEP, 4>(padded, block, &weights, out);
            } else {
                self.sum_tiles_of::<SIZE, STEP, 1>(padded, block, &weights, out);
            }
        }
    }

    /// As [`sum_tiles`](Self::sum_tiles), `N` columns at a time. A row has at least as many.
    ///
    /// # Safety
    /// As for [`sum_tiles`](Self::sum_tiles).
    #[inline(always)]
    unsafe fn sum_tiles_of<const SIZE: usize, const STEP: usize, const N: usize>(
        &self,
        padded: *const f32,
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
                        let line = padded.add(first + i * self.pitch * V::LEN);
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

    /// As [`sum_tiles`](Self::sum_tiles), for windows of any size.
    ///
    /// # Safety
    /// As for [`sum_tiles`](Self::sum_tiles).
    #[inline(always)]
    unsafe fn sum_any_windows(
        &self,
        padded: *const f32,
        block: &ChannelBlock<'_, V>,
        out: *mut f32,
    ) {
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
                            let pixel = V::load(padded.add(pixel * V::LEN));
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
