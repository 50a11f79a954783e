//! The sizes of images of one channel, and of the windows that slide over them.

use std::ops::Range;

use crate::plan::Sliding;

/// The sizes of windows that there are loops for, and the steps.
pub(super) const SIZES: [usize; 3] = [2, 3, 5];
pub(super) const STEPS: [usize; 2] = [1, 2];

/// The sizes of all images of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaneShape {
    /// Elements of a window along either axis, and the elements from one window to the next.
    pub size: usize,
    pub step: usize,
    pub height: usize,
    pub width: usize,
    /// Elements of the border before the first row, and before the first element of a row.
    pub above: usize,
    pub before: usize,
    /// Rows of windows, and windows of a row.
    pub rows: usize,
    pub columns: usize,
}

impl PlaneShape {
    /// The shape of the images of `sliding`, if there is a loop for their windows.
    pub fn of(sliding: &Sliding) -> Option<Self> {
        let [down, along] = &sliding.axes[..] else { return None };
        let window = down.window;
        let fits = window == along.window
            && window.dilation == 1
            && SIZES.contains(&window.size)
            && STEPS.contains(&window.step);
        fits.then(|| Self {
            size: window.size,
            step: window.step,
            height: down.inside.len(),
            width: along.inside.len(),
            above: down.inside.start,
            before: along.inside.start,
            rows: down.count,
            columns: along.count,
        })
    }

    /// Elements of an image.
    pub fn elements(self) -> usize {
        self.height * self.width
    }

    /// The rows of the image that some `rows` of windows cover, and the shape of the image of those rows alone.
    pub fn band(self, rows: &Range<usize>) -> (Range<usize>, Self) {
        let (first, last) = (rows.start * self.step, rows.end.max(1) * self.step - self.step);
        let end = (last + self.size).saturating_sub(self.above).min(self.height);
        let start = first.saturating_sub(self.above).min(end);
        let above = self.above.saturating_sub(first);
        (start..end, Self { height: end - start, above, ..self })
    }
}
