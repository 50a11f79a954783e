//! Images stored channels last, and a vector of their channels.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use std::ops::Range;

use crate::base::shape::Window;
use crate::exec::cpu::chain::ColumnNumbers;
use crate::exec::cpu::vectors::SimdVector;
use crate::exec::cpu::vectors::links::AffineClamp;
use crate::plan::SlidingAxis;

/// Images stored channels last, and the depthwise windows over them.
pub(super) struct WindowedImages<'p> {
    pub channels: usize,
    pub down: WindowedAxis,
    pub along: WindowedAxis,
    pub images: &'p [f32],
    /// The weights of each element of a window, of which all channels lie side by side.
    pub weights: &'p [f32],
    /// The operations that follow each sum, with numbers of each channel.
    pub affine: Option<&'p AffineClamp<ColumnNumbers<'p>>>,
}

/// The height or the width of images, and the windows along it: a [`SlidingAxis`] without the axes of the step, as the
/// loops need it. Coordinates begin after the border, at the first element in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowedAxis {
    /// Elements of an image.
    pub size: usize,
    /// Elements of the border before them.
    pub border: usize,
    /// The number of windows.
    pub count: usize,
    pub window: Window,
}

impl WindowedAxis {
    /// The axis with its border before the image.
    pub fn of(axis: &SlidingAxis) -> Self {
        let &SlidingAxis { count, window, ref inside, .. } = axis;
        Self { size: inside.len(), border: inside.start, count, window }
    }

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
    pub images: &'p WindowedImages<'p>,
    pub weights: *const f32,
    affine: Option<AffineClamp<V>>,
    /// Channels that exist.
    count: usize,
}

impl<'p, V: SimdVector> ChannelBlock<'p, V> {
    /// The vector from `channel` on.
    ///
    /// # Safety
    /// The processor has the instructions of `V`. The weights and the numbers of all channels exist.
    #[inline(always)]
    pub unsafe fn new(images: &'p WindowedImages<'p>, channel: usize) -> Self {
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

    /// The numbers of the channels from `channel` on.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
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
    /// The processor has the instructions of `V`. At `from` is a number of each channel that exists.
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
    /// The processor has the instructions of `V`. At `to` is room for the channels of `N` neighbouring pixels.
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
