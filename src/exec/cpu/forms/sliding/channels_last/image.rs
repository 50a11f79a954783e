//! Images whose channels come last, and a vector of their channels.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use std::ops::Range;

use crate::base::shape::Window;
use crate::exec::cpu::chain::ColumnNumbers;
use crate::exec::cpu::vectors::SimdVector;
use crate::exec::cpu::vectors::links::AffineClamp;

/// Images with windows, all of one size.
pub(super) struct PixelImages<'p> {
    pub channels: usize,
    pub down: ImageAxis,
    pub along: ImageAxis,
    pub images: &'p [f32],
    /// The weights of each element of a window, of which all channels lie side by side.
    pub weights: &'p [f32],
    /// The operations that follow each sum, with numbers of each channel.
    pub affine: Option<&'p AffineClamp<ColumnNumbers<'p>>>,
}

/// The height or the width of images, and the windows along it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageAxis {
    /// Elements inside of the border, and those of the border before them.
    pub size: usize,
    pub border: usize,
    /// Results.
    pub count: usize,
    pub window: Window,
}

impl ImageAxis {
    /// The first elements of the image that some windows cover: their coordinates there, and the elements of the border
    /// before them.
    pub fn covered(&self, windows: Range<usize>) -> (Range<usize>, usize) {
        let first = windows.start * self.window.step;
        let extent = self.window.extent(windows.len());
        let start = first.saturating_sub(self.border);
        let end = (first + extent).saturating_sub(self.border).min(self.size).max(start);
        (start..end, self.border.saturating_sub(first).min(extent))
    }
}

/// A vector of channels.
pub(super) struct ChannelBlock<'p, V: SimdVector> {
    pub images: &'p PixelImages<'p>,
    pub weights: *const f32,
    affine: Option<AffineClamp<V>>,
    /// Channels that exist.
    count: usize,
}

impl<'p, V: SimdVector> ChannelBlock<'p, V> {
    /// # Safety
    /// As for [`any_rows`].
    #[inline(always)]
    pub unsafe fn new(images: &'p PixelImages<'p>, channel: usize) -> Self {
        let count = (images.channels - channel).min(V::LEN);
        let weights = images.weights.as_ptr().wrapping_add(channel);
        let mut block = Self { images, weights, affine: None, count };
        if let Some(&AffineClamp { sub, mul, add, low, high }) = images.affine {
            // SAFETY: as the caller promises.
            unsafe {
                let [sub, mul] = [block.numbers(sub, channel), block.numbers(mul, channel)];
                let add = block.numbers(add, channel);
                let [low, high] = [block.numbers(low, channel), block.numbers(high, channel)];
                block.affine = Some(AffineClamp { sub, mul, add, low, high });
            }
        }
        block
    }

    /// # Safety
    /// As for [`any_rows`].
    #[inline(always)]
    unsafe fn numbers(&self, numbers: ColumnNumbers<'_>, channel: usize) -> V {
        // SAFETY: as the caller promises.
        unsafe {
            match numbers {
                ColumnNumbers::One(number) => V::splat(number),
                ColumnNumbers::Each(numbers) => self.load(numbers.as_ptr().wrapping_add(channel)),
            }
        }
    }

    /// Reads one number of each channel that exists.
    ///
    /// # Safety
    /// As for [`any_rows`].
    #[inline(always)]
    pub unsafe fn load(&self, from: *const f32) -> V {
        // SAFETY: as the caller promises.
        unsafe {
            if self.count == V::LEN { V::load(from) } else { V::load_first(from, self.count) }
        }
    }

    /// Finishes and writes neighbouring results, of which the first is at `to`.
    ///
    /// # Safety
    /// As for [`any_rows`].
    #[inline(always)]
    pub unsafe fn store<const N: usize>(&self, mut sums: [V; N], to: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe {
            if let Some(affine) = &self.affine {
                affine.apply(&mut sums);
            }
            for n in 0..N {
                let to = to.wrapping_add(n * self.images.channels);
                if self.count == V::LEN {
                    sums[n].store(to);
                } else {
                    sums[n].store_first(to, self.count);
                }
            }
        }
    }
}
