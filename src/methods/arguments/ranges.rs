//! Ranges of slices.

use std::ops;

use crate::base::shape::{Range, Shape};
use crate::error::MistakeKind;

/// The elements of one axis that [`slice`](crate::GpuCommandBatch::slice) takes: `start..end`, or `..` for all of them;
/// with a step, `(start..end, step)` or `(.., step)`.
///
/// ```
/// # use onetrip::{Device, GpuCommandBatch, SliceRange};
/// # let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.upload_shaped(&[0_i32; 24], [2, 3, 4]);
/// let y = x.slice([SliceRange::from(..), (1..3).into(), (.., -1).into()]);
/// assert_eq!(y.shape().unwrap().dims(), [2, 2, 4]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceRange {
    /// `None` for the whole axis.
    range: Option<ops::Range<usize>>,
    step: isize,
}

impl SliceRange {
    /// The elements of `axis` of `shape`.
    pub(in crate::methods) fn along(
        &self,
        axis: usize,
        shape: &Shape,
    ) -> Result<Range, MistakeKind> {
        let range = self.range.clone().unwrap_or(0..shape[axis]);
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
        Self { range: Some(range), step }
    }
}

impl From<ops::Range<usize>> for SliceRange {
    fn from(range: ops::Range<usize>) -> Self {
        (range, 1).into()
    }
}

impl From<(ops::RangeFull, isize)> for SliceRange {
    fn from((_, step): (ops::RangeFull, isize)) -> Self {
        Self { range: None, step }
    }
}

impl From<ops::RangeFull> for SliceRange {
    fn from(all: ops::RangeFull) -> Self {
        (all, 1).into()
    }
}

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
