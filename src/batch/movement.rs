//! Movement: views of the same values, and what joins or borders tensors.

use smallvec::SmallVec;

use super::axes::resolve;
use super::{Axes, BufferId, GpuCommandBatch, Refusal};
use crate::base::dtype::Element;
use crate::base::shape::{Move, Range, Shape};
use crate::error::MistakeKind;
use crate::exec::Patch;
use crate::ops::{Op, check_size};
use crate::residents::SliceUpdate;

/// Movement. All but [`concat`](Self::concat) and [`pad`](Self::pad) are views, folded into whatever
/// reads them. A reshape that strides cannot express, and a view that is itself an output, is copied.
impl GpuCommandBatch {
    /// The same elements in row-major order under another shape of as many elements.
    #[track_caller]
    pub fn reshape<T: Element>(&mut self, x: BufferId<T>, shape: impl Into<Shape>) -> BufferId<T> {
        let to = shape.into();
        self.moved("reshape", x, |from| {
            check_size(&to)?;
            if from.elements() == to.elements() {
                Ok(Move::Reshape(to))
            } else {
                Err(MistakeKind::Reshape { from: from.clone(), to })
            }
        })
    }

    /// The axes in another order: `axes[i]` is the old axis that becomes axis i.
    #[track_caller]
    pub fn permute<T: Element>(
        &mut self,
        x: BufferId<T>,
        axes: impl AsRef<[isize]>,
    ) -> BufferId<T> {
        let axes = axes.as_ref();
        self.moved("permute", x, |shape| {
            let order = Axes::from(axes);
            let complete = axes.len() == shape.rank() && order.resolve(shape).is_ok();
            if !complete {
                return Err(MistakeKind::Permutation { axes: axes.to_vec(), shape: shape.clone() });
            }
            let order: Result<_, _> = axes.iter().map(|&axis| resolve(axis, shape)).collect();
            Ok(Move::Permute(order?))
        })
    }

    /// The last two axes swapped.
    #[track_caller]
    pub fn transpose<T: Element>(&mut self, x: BufferId<T>) -> BufferId<T> {
        self.moved("transpose", x, |shape| {
            let rank = shape.rank();
            if rank < 2 {
                return Err(MistakeKind::Transpose(shape.clone()));
            }
            let mut order: SmallVec<[usize; 4]> = (0..rank).collect();
            order.swap(rank - 1, rank - 2);
            Ok(Move::Permute(order))
        })
    }

    /// Along each axis the elements `start..end`, every one if the range is all that is given, else in
    /// steps: `(start..end, step)`. A negative step takes the elements of the range from its last one
    /// backwards. One range an axis, each inside of it.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// # let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload_shaped(&[0_i32; 40], [4, 10]);
    /// let y = batch.slice(x, [(1..4, 1), (0..10, 3)]);
    /// assert_eq!(batch.shape(y).unwrap().dims(), [3, 4]);
    /// ```
    #[track_caller]
    pub fn slice<T: Element>(
        &mut self,
        x: BufferId<T>,
        ranges: impl AsRef<[(std::ops::Range<usize>, isize)]>,
    ) -> BufferId<T> {
        let ranges = ranges.as_ref();
        self.moved("slice", x, |shape| {
            if ranges.len() != shape.rank() {
                let (given, shape) = (ranges.len(), shape.clone());
                return Err(MistakeKind::PerAxis { what: "a slice", given, shape });
            }
            let ranges = ranges.iter().enumerate();
            let ranges = ranges.map(|(axis, (range, step))| sliced(axis, range, *step, shape));
            Ok(Move::Slice(ranges.collect::<Result<_, _>>()?))
        })
    }

    /// Without an axis of size 1.
    #[track_caller]
    pub fn squeeze<T: Element>(&mut self, x: BufferId<T>, axis: isize) -> BufferId<T> {
        self.moved("squeeze", x, |shape| {
            let axis = resolve(axis, shape)?;
            if shape[axis] != 1 {
                return Err(MistakeKind::Squeeze { axis, shape: shape.clone() });
            }
            let kept = shape.dims().iter().enumerate().filter(|&(a, _)| a != axis);
            Ok(Move::Reshape(kept.map(|(_, &dim)| dim).collect()))
        })
    }

    /// With a new axis of size 1 at `axis` of the result (−1 is after the last).
    #[track_caller]
    pub fn unsqueeze<T: Element>(&mut self, x: BufferId<T>, axis: isize) -> BufferId<T> {
        self.moved("unsqueeze", x, |shape| {
            let rank = shape.rank() as isize + 1;
            if !(-rank..rank).contains(&axis) {
                return Err(MistakeKind::NewAxis { axis, shape: shape.clone() });
            }
            let mut dims = shape.dims().to_vec();
            dims.insert(axis.rem_euclid(rank) as usize, 1);
            check_size(&Shape::new(&dims))?;
            Ok(Move::Reshape(dims.into()))
        })
    }

    /// Repeated along new axes and axes of size 1, by NumPy's rules.
    #[track_caller]
    pub fn broadcast_to<T: Element>(
        &mut self,
        x: BufferId<T>,
        shape: impl Into<Shape>,
    ) -> BufferId<T> {
        let to = shape.into();
        self.moved("broadcast_to", x, |from| {
            check_size(&to)?;
            if from.broadcast(&to).as_ref() == Some(&to) {
                Ok(Move::Broadcast(to))
            } else {
                Err(MistakeKind::BroadcastTo { from: from.clone(), to })
            }
        })
    }

    /// Backwards along `axes`.
    #[track_caller]
    pub fn flip<T: Element>(&mut self, x: BufferId<T>, axes: impl Into<Axes>) -> BufferId<T> {
        let axes = axes.into();
        self.moved("flip", x, |shape| {
            let axes = axes.resolve(shape)?;
            let ranges = shape.dims().iter().enumerate().map(|(axis, &count)| {
                if axes.contains(&axis) && count > 0 {
                    Range { start: count as i64 - 1, step: -1, count }
                } else {
                    Range { start: 0, step: 1, count }
                }
            });
            Ok(Move::Slice(ranges.collect()))
        })
    }

    /// The tensors end to end along `axis`; all their other axes must be equal.
    #[track_caller]
    pub fn concat<T: Element>(&mut self, tensors: &[BufferId<T>], axis: isize) -> BufferId<T> {
        let Some(&first) = tensors.first() else {
            return self.mistake("concat", MistakeKind::ConcatEmpty);
        };
        let ids: Vec<_> = tensors.iter().map(|&id| self.check(id)).collect();
        let shape = self.known_shape(&self.check(first));
        match shape.map(|shape| resolve(axis, &shape)).transpose() {
            Ok(axis) => self.record(Op::Concat { axis: axis.unwrap_or_default() }, &ids),
            Err(what) => self.mistake("concat", what),
        }
    }

    /// A border of `value`: `(before, after)` elements along each axis.
    #[track_caller]
    pub fn pad<T: Element>(
        &mut self,
        x: BufferId<T>,
        border: impl AsRef<[(usize, usize)]>,
        value: T,
    ) -> BufferId<T> {
        let border = border.as_ref();
        let ids = [self.check(x)];
        if let Some(shape) = self.known_shape(&ids[0])
            && border.len() != shape.rank()
        {
            let what = MistakeKind::PerAxis { what: "a border", given: border.len(), shape };
            return self.mistake("pad", what);
        }
        let before = border.iter().map(|&(before, _)| before).collect();
        let after = border.iter().map(|&(_, after)| after).collect();
        self.record(Op::Pad { before, after, value: value.scalar() }, &ids)
    }

    /// `state` with `new` in place of its elements from `at` on along `axis`: keys and values that grow as a decoder
    /// goes on, in a state that has room. All other axes must be equal. The result is another tensor, of which readers
    /// may fuse the parts; but where it [updates](Self::update) the resident that `state` binds, only `new` is written,
    /// within the limits that are told there.
    #[track_caller]
    pub fn replace_slice<T: Element>(
        &mut self,
        state: BufferId<T>,
        new: BufferId<T>,
        axis: isize,
        at: usize,
    ) -> BufferId<T> {
        self.composed("replace_slice", |b| {
            let (axis, shape, count) = match b.slice_shapes(state, new, axis, at) {
                Ok(shapes) => shapes,
                Err(what) => return b.refused("replace_slice", what),
            };
            let mut part = |from: usize, to: usize| {
                let ranges = shape.dims().iter().enumerate();
                let ranges: Vec<_> = ranges
                    .map(|(a, &dim)| if a == axis { (from..to, 1) } else { (0..dim, 1) })
                    .collect();
                b.slice(state, ranges)
            };
            let (before, after) = (part(0, at), part(at + count, shape[axis]));
            let replaced = b.concat(&[before, new, after], axis as isize);
            let patch = Patch::new(&shape, axis, at, count);
            let slice = SliceUpdate { state: state.node, new: new.node, patch };
            b.slice_updates.insert(replaced.node, slice);
            replaced
        })
    }

    #[track_caller]
    fn moved<T: Element>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        to: impl FnOnce(&Shape) -> Result<Move, MistakeKind>,
    ) -> BufferId<T> {
        let ids = [self.check(x)];
        match self.known_shape(&ids[0]).map(|shape| to(&shape)).transpose() {
            // An operand that comes from a mistake makes this one keep silent, whatever it would be.
            Ok(to) => {
                let to = to.unwrap_or_else(|| Move::Reshape(Shape::default()));
                self.record(Op::Move { name, to }, &ids)
            }
            Err(what) => self.mistake(name, what),
        }
    }

    /// The axis, the shape of the state, and how many are new.
    fn slice_shapes<T: Element>(
        &self,
        state: BufferId<T>,
        new: BufferId<T>,
        axis: isize,
        at: usize,
    ) -> Result<(usize, Shape, usize), Refusal> {
        let (shape, new) = (self.shape_of(state)?, self.shape_of(new)?);
        let axis = resolve(axis, &shape)?;
        let fits = new.rank() == shape.rank()
            && (0..shape.rank()).all(|a| a == axis || new[a] == shape[a]);
        if !fits {
            return Err(MistakeKind::Concat { first: shape, other: new, axis }.into());
        }
        let end = at.saturating_add(new[axis]);
        if end > shape[axis] {
            return Err(MistakeKind::SliceRange { start: at, end, axis, shape }.into());
        }
        Ok((axis, shape, new[axis]))
    }
}

fn sliced(
    axis: usize,
    range: &std::ops::Range<usize>,
    step: isize,
    shape: &Shape,
) -> Result<Range, MistakeKind> {
    if step == 0 {
        return Err(MistakeKind::SliceStep(axis));
    }
    if range.start > range.end || range.end > shape[axis] {
        let (start, end) = (range.start, range.end);
        return Err(MistakeKind::SliceRange { start, end, axis, shape: shape.clone() });
    }
    let count = range.len().div_ceil(step.unsigned_abs());
    let first = if step > 0 || range.is_empty() { range.start } else { range.end - 1 };
    // A step that is never taken may be of any size, and would overflow as a stride.
    let step = if count > 1 { step as i64 } else { 1 };
    Ok(Range { start: first as i64, step, count })
}
