//! Ranges of slices.

use std::ops;

use crate::base::shape::{Range, Shape};
use crate::error::MistakeKind;

/// The elements of one axis that [`slice`](crate::GpuCommandBatch::slice) takes: `start..end`, where either may be left
/// out, or `..` for all of them; with a step, `(start..end, step)`.
///
/// ```
/// # use onetrip::{Device, GpuCommandBatch, SliceRange};
/// # let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.upload_shaped(&[0_i32; 24], [2, 3, 4]);
/// let y = x.slice([SliceRange::from(..), (1..).into(), (.., -1).into()]);
/// assert_eq!(y.shape().unwrap().dims(), [2, 2, 4]);
/// assert_eq!(x.slice([..1, ..2, ..3]).shape().unwrap().dims(), [1, 2, 3]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceRange {
    start: usize,
    /// `None` for the end of the axis.
    end: Option<usize>,
    step: isize,
}

impl SliceRange {
    /// The elements of `axis` of `shape`.
    pub(in crate::methods) fn along(
        &self,
        axis: usize,
        shape: &Shape,
    ) -> Result<Range, MistakeKind> {
        let range = self.start..self.end.unwrap_or(shape[axis]);
        if self.step == 0 {
            return Err(MistakeKind::SliceStep(axis));
        }
        if range.start > range.end || range.end > shape[axis] {
            let (start, end) = (range.start, range.end);
            return Err(MistakeKind::SliceRange { start, end, axis, shape: shape.clone() });
        }
        let count = range.len().div_ceil(self.step.unsigned_abs());
        let forwards = self.step > 0 || range.is_empty();
        let first = if forwards { range.start } else { range.end - 1 };
        // A step that is never taken may be of any size, and would overflow as a stride.
        let step = if count > 1 { self.step as i64 } else { 1 };
        Ok(Range { start: first as i64, step, count })
    }
}

impl From<(ops::Range<usize>, isize)> for SliceRange {
    fn from((range, step): (ops::Range<usize>, isize)) -> Self {
        Self { start: range.start, end: Some(range.end), step }
    }
}

impl From<(ops::RangeFrom<usize>, isize)> for SliceRange {
    fn from((range, step): (ops::RangeFrom<usize>, isize)) -> Self {
        Self { start: range.start, end: None, step }
    }
}

impl From<(ops::RangeTo<usize>, isize)> for SliceRange {
    fn from((range, step): (ops::RangeTo<usize>, isize)) -> Self {
        (0..range.end, step).into()
    }
}

impl From<(ops::RangeFull, isize)> for SliceRange {
    fn from((_, step): (ops::RangeFull, isize)) -> Self {
        (0.., step).into()
    }
}

macro_rules! without_a_step {
    ($($range:ty),*) => {$(
        impl From<$range> for SliceRange {
            fn from(range: $range) -> Self {
                (range, 1).into()
            }
        }
    )*};
}
without_a_step!(ops::Range<usize>, ops::RangeFrom<usize>, ops::RangeTo<usize>, ops::RangeFull);

macro_rules! borrowed {
    ($($range:ty),*) => {$(
        impl From<&$range> for SliceRange {
            fn from(range: &$range) -> Self {
                range.clone().into()
            }
        }
    )*};
}
borrowed!(Self, ops::Range<usize>, (ops::Range<usize>, isize));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_without_a_start_or_an_end_reach_those_of_the_axis() {
        let shape = Shape::from([5]);
        let along = |range: SliceRange| {
            range.along(0, &shape).map(|Range { start, step, count }| (start, step, count))
        };
        assert_eq!(along((..3).into()), Ok((0, 1, 3)));
        assert_eq!(along((3..).into()), Ok((3, 1, 2)));
        assert_eq!(along((.., 2).into()), Ok((0, 2, 3)));
        assert_eq!(along((1.., -3).into()), Ok((4, -3, 2)));
        assert_eq!(along((..0).into()), Ok((0, 1, 0)));
        let outside =
            |start, end| MistakeKind::SliceRange { start, end, axis: 0, shape: shape.clone() };
        assert_eq!(along((6..).into()), Err(outside(6, 5)));
        assert_eq!(along((..6).into()), Err(outside(0, 6)));
    }
}
