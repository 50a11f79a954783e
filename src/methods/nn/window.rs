//! Windows that slide along axes, the parts of pooling and convolution.

use std::ops::Range;

use smallvec::SmallVec;

use crate::base::dtype::{Element, Scalar};
use crate::base::shape::{Shape, Window};
use crate::batch::{Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::axes::resolve;
use crate::methods::arguments::checks::check_parameter;
use crate::methods::movement::views::windows;
use crate::ops::{Op, check_size};

/// Windows along an axis with a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AxisWindows {
    pub window: Window,
    pub len: usize,
    pub before: usize,
    pub after: usize,
    /// Elements of border past `after` that the last window reaches into.
    pub beyond: usize,
    pub count: usize,
}

impl Default for AxisWindows {
    fn default() -> Self {
        let window = Window { size: 1, step: 1, dilation: 1 };
        Self { window, len: 0, before: 0, after: 0, beyond: 0, count: 0 }
    }
}

impl AxisWindows {
    /// `window` along `axis` of `shape` between borders of `before` and `after`. With `ceil_mode` the last window may
    /// reach past them, as long as it does not start after the elements of the axis.
    pub fn new(
        window: Window,
        shape: &Shape,
        axis: usize,
        (before, after): (usize, usize),
        ceil_mode: bool,
    ) -> Result<Self, MistakeKind> {
        check_window(window)?;
        let len = shape[axis];
        let reach = window.reach();
        let inside = len.saturating_add(before);
        let room = inside.saturating_add(after);
        let mut count = window.count(room);
        let next = count.saturating_mul(window.step);
        let started = next < inside && next.saturating_add(reach) > room;
        if ceil_mode && started && next.saturating_add(reach) < room.saturating_add(window.step) {
            count += 1;
        }
        if count == 0 {
            return Err(MistakeKind::Window { reach, axis, shape: shape.clone() });
        }
        let beyond = ((count - 1) * window.step).saturating_add(reach).saturating_sub(room);
        Ok(Self { window, len, before, after, beyond, count })
    }

    /// The range that is counted: the elements of the axis, and those of the padding if asked for.
    fn counting(&self, padding: bool) -> Range<usize> {
        let end = self.before + self.len;
        if padding { 0..end + self.after } else { self.before..end }
    }

    /// Returns true if every element of every window is counted.
    pub fn counts_all(&self, padding: bool) -> bool {
        let counting = self.counting(padding);
        let last = (self.count - 1) * self.window.step;
        counting.start == 0 && last.saturating_add(self.window.reach()) <= counting.end
    }

    /// For each window how many of its elements are counted.
    pub fn counted(&self, padding: bool) -> Vec<usize> {
        let Window { size, step, dilation } = self.window;
        let counting = self.counting(padding);
        // Elements of the window that lie before `end`.
        let before =
            |at: usize, end: usize| end.saturating_sub(at * step).div_ceil(dilation).min(size);
        let counted = |at| before(at, counting.end) - before(at, counting.start);
        (0..self.count).map(counted).collect()
    }
}

/// Refuses a window that has no elements or does not move.
pub(super) fn check_window(window: Window) -> Result<(), MistakeKind> {
    let Window { size, step, dilation } = window;
    for (what, number) in [("size", size), ("stride", step), ("dilation", dilation)] {
        check_parameter(what, number > 0, "at least 1", &number)?;
    }
    Ok(())
}

pub(in crate::methods) fn unfold<T: Element>(
    x: Tensor<'_, T>,
    axis: isize,
    size: usize,
    step: usize,
) -> TensorResult<'_, T> {
    let window = Window { size, step, dilation: 1 };
    let shape = x.known_shape()?;
    let axis = resolve(axis, &shape)?;
    check_parameter("step", step > 0, "at least 1", &step)?;
    AxisWindows::new(window, &shape, axis, (0, 0), false)?;
    check_rank(&shape, 1)?;
    let windows = windows("unfold", x, axis, window);
    let axes = (0..=shape.rank() as isize).filter(|&a| a != axis as isize + 1);
    let axes: SmallVec<[isize; 8]> = axes.chain([axis as isize + 1]).collect();
    Ok(windows.permute(axes))
}

/// The windows of `slides` along the axes from `lead` on, each of which becomes two, over `x` with a border of one
/// value. `name` is the method that the user called.
pub(super) fn slid<'b, T: Element>(
    name: &'static str,
    x: Tensor<'b, T>,
    lead: usize,
    slides: &[AxisWindows],
    border: Scalar,
) -> TensorResult<'b, T> {
    let shape = x.known_shape()?;
    check_rank(&shape, slides.len())?;
    check_windows(&shape, lead, slides)?;
    let mut y = x;
    if slides.iter().any(|slide| slide.before + slide.after + slide.beyond > 0) {
        let none = std::iter::repeat_n(0, lead);
        let before = none.clone().chain(slides.iter().map(|s| s.before)).collect();
        let after = none.chain(slides.iter().map(|s| s.after + s.beyond)).collect();
        y = x.apply(Op::Pad { before, after, value: border });
    }
    for (at, slide) in slides.iter().enumerate() {
        y = windows(name, y, lead + 2 * at, slide.window);
    }
    Ok(y)
}

/// Refuses a shape that gets too many axes by windows along `more` axes.
fn check_rank(shape: &Shape, more: usize) -> Result<(), MistakeKind> {
    check_size(&vec![1; shape.rank() + more].into())
}

/// Refuses windows and borders with more elements than can be counted.
fn check_windows(shape: &Shape, lead: usize, slides: &[AxisWindows]) -> Result<(), MistakeKind> {
    let along = |of: &dyn Fn(&AxisWindows) -> usize| -> Shape {
        shape.dims()[..lead].iter().copied().chain(slides.iter().map(of)).collect()
    };
    check_size(&along(&|s| s.count.saturating_mul(s.window.size)))?;
    let padded =
        along(&|s| s.len.saturating_add(s.before).saturating_add(s.after).saturating_add(s.beyond));
    if padded.dims().iter().any(|&dim| dim > i32::MAX as usize) {
        return Err(MistakeKind::TooLarge(padded));
    }
    check_size(&padded)
}
