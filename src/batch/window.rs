//! Windows that slide along axes: what pooling and convolution are made of.

use std::ops::Range;

use smallvec::SmallVec;

use super::axes::resolve;
use super::{BufferId, GpuCommandBatch, Refusal};
use crate::base::dtype::{Element, Scalar};
use crate::base::shape::{Move, Shape, Window};
use crate::error::MistakeKind;
use crate::ops::{Op, check_size};

/// Windows along an axis with a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slide {
    pub window: Window,
    pub len: usize,
    pub before: usize,
    pub after: usize,
    /// Elements of border past `after` that the last window reaches into.
    pub beyond: usize,
    pub count: usize,
}

impl Default for Slide {
    fn default() -> Self {
        let window = Window { size: 1, step: 1, dilation: 1 };
        Self { window, len: 0, before: 0, after: 0, beyond: 0, count: 0 }
    }
}

/// What is wrong with how windows should slide.
pub(super) enum Wrong {
    /// A number that must not be 0.
    Zero(&'static str),
    /// A window of this reach has no room.
    NoRoom(usize),
}

impl Wrong {
    pub fn mistake(self, axis: usize, shape: &Shape) -> MistakeKind {
        match self {
            Self::Zero(what) => {
                MistakeKind::Parameter { what, must: "at least 1", given: "0".into() }
            }
            Self::NoRoom(reach) => MistakeKind::Window { reach, axis, shape: shape.clone() },
        }
    }
}

impl Slide {
    /// `window` along `len` elements between borders of `before` and `after`. With `ceil_mode` the last window may
    /// reach past them, as long as it does not start in what comes after the `len` elements.
    pub fn new(
        window: Window,
        len: usize,
        (before, after): (usize, usize),
        ceil_mode: bool,
    ) -> Result<Self, Wrong> {
        let numbers =
            [(window.size, "size"), (window.step, "stride"), (window.dilation, "dilation")];
        if let Some((_, what)) = numbers.into_iter().find(|&(number, _)| number == 0) {
            return Err(Wrong::Zero(what));
        }
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
            return Err(Wrong::NoRoom(reach));
        }
        let beyond = ((count - 1) * window.step).saturating_add(reach).saturating_sub(room);
        Ok(Self { window, len, before, after, beyond, count })
    }

    /// What is counted: the elements of the axis, and those of the padding if asked for.
    fn counting(&self, padding: bool) -> Range<usize> {
        let end = self.before + self.len;
        if padding { 0..end + self.after } else { self.before..end }
    }

    /// Whether every element of every window is counted.
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

impl GpuCommandBatch {
    /// Windows of `size` elements along `axis`, each `step` past the last, as many as fit. The axis becomes their
    /// number, and a new last axis has their elements: PyTorch's `Tensor.unfold`. A view: windows may overlap, and
    /// nothing is copied. It is a mistake if not even one fits.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// # let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1_i32, 2, 4, 8, 16]);
    /// let windows = batch.unfold(x, 0, 3, 1);
    /// let sums = batch.sum(windows, -1);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(sums).await?, [7, 14, 28]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn unfold<T: Element>(
        &mut self,
        x: BufferId<T>,
        axis: isize,
        size: usize,
        step: usize,
    ) -> BufferId<T> {
        let window = Window { size, step, dilation: 1 };
        self.composed_if("unfold", |b| {
            let (axis, rank) = b.unfolded_axis(x, axis, window)?;
            let windows = b.windows("unfold", x, axis, window);
            let axes = (0..=rank as isize).filter(|&a| a != axis as isize + 1);
            let axes: SmallVec<[isize; 8]> = axes.chain([axis as isize + 1]).collect();
            Ok(b.permute(windows, axes))
        })
    }

    /// The axis counted from the front, and the rank, of what `window` may slide along.
    fn unfolded_axis<T: Element>(
        &self,
        x: BufferId<T>,
        axis: isize,
        window: Window,
    ) -> Result<(usize, usize), Refusal> {
        let shape = self.shape_of(x)?;
        let axis = resolve(axis, &shape)?;
        let slide = match window.step {
            0 => Err(Wrong::Zero("step")),
            _ => Slide::new(window, shape[axis], (0, 0), false),
        };
        slide.map_err(|wrong| wrong.mistake(axis, &shape))?;
        check_rank(&shape, 1)?;
        Ok((axis, shape.rank()))
    }

    /// The windows along `axis`, which becomes two axes: windows, and their elements.
    #[track_caller]
    pub(super) fn windows<T: Element>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        axis: usize,
        window: Window,
    ) -> BufferId<T> {
        let ids = [self.check(x)];
        self.record(Op::Move { name, to: Move::Window { axis, window } }, &ids)
    }

    /// The windows of `slides` along the axes from `lead` on, each of which becomes two, over `x` with a border of one
    /// value.
    #[track_caller]
    pub(super) fn slid<T: Element>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        lead: usize,
        slides: &[Slide],
        border: Scalar,
    ) -> Result<BufferId<T>, MistakeKind> {
        let ids = [self.check(x)];
        let shape = self.known_shape(&ids[0]).unwrap_or_default();
        check_rank(&shape, slides.len())?;
        check_windows(&shape, lead, slides)?;
        let mut y = x;
        if slides.iter().any(|slide| slide.before + slide.after + slide.beyond > 0) {
            let none = std::iter::repeat_n(0, lead);
            let before = none.clone().chain(slides.iter().map(|s| s.before)).collect();
            let after = none.chain(slides.iter().map(|s| s.after + s.beyond)).collect();
            y = self.record(Op::Pad { before, after, value: border }, &ids);
        }
        for (at, slide) in slides.iter().enumerate() {
            y = self.windows(name, y, lead + 2 * at, slide.window);
        }
        Ok(y)
    }
}

/// Refuses what windows along `more` axes make too many axes of.
fn check_rank(shape: &Shape, more: usize) -> Result<(), MistakeKind> {
    check_size(&vec![1; shape.rank() + more].into())
}

/// Refuses windows and borders with more elements than can be counted.
fn check_windows(shape: &Shape, lead: usize, slides: &[Slide]) -> Result<(), MistakeKind> {
    let along = |of: &dyn Fn(&Slide) -> usize| -> Shape {
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
