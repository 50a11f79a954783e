//! Movement: views of the same values, and operations that join or border tensors.

pub(super) mod views;

use smallvec::SmallVec;

use self::views::{along, moved};

use crate::base::dtype::Element;
use crate::base::shape::{Move, Range, Shape};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::exec::Patch;
use crate::methods::arguments::axes::resolve;
use crate::methods::nn::unfold;
use crate::methods::{Axes, SliceRange};
use crate::ops::{Op, check_size};
use crate::record::UntypedId;
use crate::residents::SliceUpdate;

operations! {
    /// Movement. All but [`concat`](GpuCommandBatch::concat), [`pad`](GpuCommandBatch::pad) and
    /// [`replace_slice`](GpuCommandBatch::replace_slice) are views, which their readers fold into their loads. A reshape that strides cannot express, and a view that is itself an output, is copied.
    "movement";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload_shaped(&[1_i32, 2, 3, 4], [2, 2]);
        /// let new = batch.upload_shaped(&[8_i32, 9], [1, 2]);
        /// let row = batch.upload(&[1_i32, 2]);
        /// let results = [
        ///     (x.reshape([4]), vec![1, 2, 3, 4]),
        ///     (x.permute([1, 0]), vec![1, 3, 2, 4]),
        ///     (x.transpose(), vec![1, 3, 2, 4]),
        ///     (x.slice([0..2, 1..2]), vec![2, 4]),
        ///     (new.squeeze(0), vec![8, 9]),
        ///     (row.unsqueeze(0), vec![1, 2]),
        ///     (row.broadcast_to([2, 2]), vec![1, 2, 1, 2]),
        ///     (x.flip(1), vec![2, 1, 4, 3]),
        ///     (row.pad([(1, 1)], 0), vec![0, 1, 2, 0]),
        ///     (x.replace_slice(new, 0, 1), vec![1, 2, 8, 9]),
        ///     (batch.concat([x, new], 0), vec![1, 2, 3, 4, 8, 9]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     assert_eq!(batch.read(result).await?, expected);
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// The same elements in row-major order under another shape of as many elements. Each size is given: where PyTorch
    /// takes −1, write the number of elements divided by the other sizes.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload_shaped(&[0.5_f32; 24], [2, 3, 4]);
    /// let shape = x.shape().unwrap_or_default(); // `None` after a mistake alone
    /// let rows = x.reshape([shape.elements() / 4, 4]); // PyTorch's x.reshape(-1, 4)
    /// let images = x.reshape([shape[0], shape.elements() / shape[0]]); // x.flatten(1)
    /// # assert_eq!(rows.shape().unwrap().dims(), [6, 4]);
    /// # assert_eq!(images.shape().unwrap().dims(), [2, 12]);
    /// ```
    #[doc(alias = "view")]
    fn reshape<T: Element>(x: T; shape: impl Into<Shape>) -> Tensor<'b, T> = reshape(x, shape),
        ALL, "a view where strides can express it, else a copy", EXACT, "The same elements in row-major order under another shape.";
    /// The axes in another order: `axes[i]` is the old axis that becomes axis i. Each axis is named once, or it is a mistake;
    /// a negative one counts from the end.
    fn permute<T: Element>(x: T; axes: impl AsRef<[isize]>) -> Tensor<'b, T> = permute(x, axes),
        ALL, VIEW, EXACT, "The axes in another order.";
    /// The tensor with its last two axes swapped. A tensor of fewer than two axes is a mistake. NumPy's `transpose` without arguments reverses all axes.
    #[doc(alias = "t")]
    fn transpose<T: Element>(x: T) -> Tensor<'b, T> = transpose(x),
        ALL, VIEW, EXACT, "The last two axes swapped.";
    /// Along each axis the elements `start..end`, or every `step`th of them: `(start..end, step)`. A negative step
    /// takes the elements of the range from its last one backwards: `(0..10, -2)` is NumPy's `9::-2`. One range an
    /// axis: `x.slice([0..1])` for a vector. A range that does not lie inside its axis, a missing one, and a step of 0 are
    /// mistakes. An array of ranges of several forms is one of
    /// [`SliceRange`]s.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch, SliceRange};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload_shaped(&[0_i32; 40], [4, 10]);
    /// assert_eq!(x.slice([1..4, 0..9]).shape().unwrap().dims(), [3, 9]);
    /// assert_eq!(x.slice([(1..4, 1), (0..10, 3)]).shape().unwrap().dims(), [3, 4]);
    /// let y = x.slice([SliceRange::from(..), (0..10, -2).into()]);
    /// assert_eq!(y.shape().unwrap().dims(), [4, 5]);
    /// ```
    fn slice<T: Element>(x: T; ranges: impl IntoIterator<Item = impl Into<SliceRange>>) -> Tensor<'b, T> = slice(x, ranges),
        ALL, VIEW, EXACT, "A range with a step along each axis.";
    /// The tensor without the axis `axis`, whose size must be 1.
    fn squeeze<T: Element>(x: T; axis: isize) -> Tensor<'b, T> = squeeze(x, axis),
        ALL, VIEW, EXACT, "Without an axis of size 1.";
    /// The tensor with a new axis of size 1 at `axis` of the result (−1 is after the last).
    #[doc(alias = "expand_dims")]
    fn unsqueeze<T: Element>(x: T; axis: isize) -> Tensor<'b, T> = unsqueeze(x, axis),
        ALL, VIEW, EXACT, "With a new axis of size 1.";
    /// The tensor repeated along new axes and axes of size 1, by NumPy's rules. A shape that it does not fit is a mistake.
    #[doc(alias = "expand")]
    fn broadcast_to<T: Element>(x: T; shape: impl Into<Shape>) -> Tensor<'b, T> = broadcast_to(x, shape),
        ALL, VIEW, EXACT, "Repeated along axes of size 1, by NumPy's rules.";
    /// The tensor with its elements in reverse order along `axes`.
    fn flip<T: Element>(x: T; axes: impl Into<Axes>) -> Tensor<'b, T> = flip(x, axes),
        ALL, VIEW, EXACT, "Backwards along some axes.";
    /// Windows of `size` elements along `axis`, each `step` past the last, as many as fit. The axis becomes their
    /// number, and a new last axis has their elements: PyTorch's `Tensor.unfold`, not its `nn.Unfold`. A view: windows
    /// may overlap, and nothing is copied. It is a mistake if not even one fits.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1_i32, 2, 4, 8, 16]);
    /// let windows = batch.unfold(x, 0, 3, 1);
    /// let sums = batch.sum(windows, -1);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(sums).await?, [7, 14, 28]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    fn unfold<T: Element>(x: T; axis: isize, size: usize, step: usize) -> Tensor<'b, T> = unfold(x, axis, size, step),
        ALL, VIEW, EXACT, "Windows along an axis, which may overlap.";
    /// `state` with `new` in place of its elements from `at` on along `axis`: keys and values that grow as a decoder
    /// goes on, in a state that has room. All other axes must be equal. The result is another tensor, of which readers
    /// may fuse the parts; but where it [updates](Self::update) the resident that `state` binds, only `new` is written,
    /// within the limits that `update` documents.
    #[doc(alias = "slice_scatter")]
    fn replace_slice<T: Element>(state: T, new: T; axis: isize, at: usize) -> Tensor<'b, T> = replace_slice(state, new, axis, at),
        ALL, ANYTHING, EXACT, "A tensor with others in place of its elements from one place of an axis on.";
    /// A border of `value`: `(before, after)` elements for each axis, which grows by both. A list of another length is a
    /// mistake. `x.pad([(0, 0), (1, 2)], 0.0)` puts one column of zeros before a matrix, and two behind it.
    fn pad<T: Element>(x: T; border: impl AsRef<[(usize, usize)]>, value: T) -> Tensor<'b, T> = pad(x, border, value),
        ALL, ANYTHING, EXACT, "A border of one value around a tensor.";

    others {
        concat, ALL, ANYTHING, EXACT, "Tensors end to end along an axis.";
    }
}

/// Tensors end to end.
impl GpuCommandBatch {
    /// The tensors end to end along `axis`; all their other axes must be equal. No tensor, and an axis out of range, are
    /// mistakes. They come as an array, a slice or a
    /// vector of tensors or ids.
    #[doc(alias = "cat")]
    #[doc(alias = "concatenate")]
    #[track_caller]
    pub fn concat<T: Element>(
        &self,
        tensors: impl IntoIterator<Item = impl Operand<T>>,
        axis: isize,
    ) -> Tensor<'_, T> {
        // Not within the call, nor in a closure: operations that the iterator records are the user's own.
        let mut operands: SmallVec<[UntypedId; 4]> = SmallVec::new();
        for x in tensors {
            operands.push(self.option("concat", x).value());
        }
        self.composed_of("concat", |named| {
            named.extend_from_slice(&operands);
            let &first = operands.first().ok_or(MistakeKind::ConcatEmpty)?;
            let axis = resolve(axis, &self.shape_of(first)?)?;
            Ok(self.record(Op::Concat { axis }, &operands))
        })
    }
}

fn reshape<T: Element>(x: Tensor<'_, T>, shape: impl Into<Shape>) -> TensorResult<'_, T> {
    let (from, to) = (x.known_shape()?, shape.into());
    check_size(&to)?;
    if from.elements() != to.elements() {
        return Err(MistakeKind::Reshape { from, to }.into());
    }
    Ok(moved("reshape", x, Move::Reshape(to)))
}

fn permute<T: Element>(x: Tensor<'_, T>, axes: impl AsRef<[isize]>) -> TensorResult<'_, T> {
    let order = order(x.known_shape()?, axes.as_ref())?;
    Ok(moved("permute", x, Move::Permute(order)))
}

/// The old axes in their new order.
fn order(shape: Shape, axes: &[isize]) -> Result<SmallVec<[usize; 4]>, MistakeKind> {
    let complete = axes.len() == shape.rank() && Axes::from(axes).resolve(&shape).is_ok();
    if !complete {
        return Err(MistakeKind::Permutation { axes: axes.to_vec(), shape });
    }
    axes.iter().map(|&axis| resolve(axis, &shape)).collect()
}

fn transpose<T: Element>(x: Tensor<'_, T>) -> TensorResult<'_, T> {
    let shape = x.known_shape()?;
    let rank = shape.rank();
    if rank < 2 {
        return Err(MistakeKind::Transpose(shape).into());
    }
    let mut order: SmallVec<[usize; 4]> = (0..rank).collect();
    order.swap(rank - 1, rank - 2);
    Ok(moved("transpose", x, Move::Permute(order)))
}

fn slice<T: Element>(
    x: Tensor<'_, T>,
    ranges: impl IntoIterator<Item = impl Into<SliceRange>>,
) -> TensorResult<'_, T> {
    let shape = x.known_shape()?;
    let ranges: SmallVec<[SliceRange; 4]> = ranges.into_iter().map(Into::into).collect();
    if ranges.len() != shape.rank() {
        return Err(MistakeKind::PerAxis { what: "a slice", given: ranges.len(), shape }.into());
    }
    let ranges = ranges.iter().enumerate();
    let ranges = ranges.map(|(axis, range)| range.along(axis, &shape));
    Ok(moved("slice", x, Move::Slice(ranges.collect::<Result<_, _>>()?)))
}

fn squeeze<T: Element>(x: Tensor<'_, T>, axis: isize) -> TensorResult<'_, T> {
    let shape = x.known_shape()?;
    let axis = resolve(axis, &shape)?;
    if shape[axis] != 1 {
        return Err(MistakeKind::Squeeze { axis, shape }.into());
    }
    let kept = shape.dims().iter().enumerate().filter(|&(a, _)| a != axis);
    Ok(moved("squeeze", x, Move::Reshape(kept.map(|(_, &dim)| dim).collect())))
}

fn unsqueeze<T: Element>(x: Tensor<'_, T>, axis: isize) -> TensorResult<'_, T> {
    let shape = x.known_shape()?;
    let rank = shape.rank() as isize + 1;
    if !(-rank..rank).contains(&axis) {
        return Err(MistakeKind::NewAxis { axis, shape }.into());
    }
    let mut dims: SmallVec<[usize; 8]> = SmallVec::from_slice(shape.dims());
    dims.insert(axis.rem_euclid(rank) as usize, 1);
    check_size(&Shape::new(&dims))?;
    Ok(moved("unsqueeze", x, Move::Reshape(Shape::new(&dims))))
}

fn broadcast_to<T: Element>(x: Tensor<'_, T>, shape: impl Into<Shape>) -> TensorResult<'_, T> {
    let (from, to) = (x.known_shape()?, shape.into());
    check_size(&to)?;
    if from.broadcast(&to).as_ref() != Some(&to) {
        return Err(MistakeKind::BroadcastTo { from, to }.into());
    }
    Ok(moved("broadcast_to", x, Move::Broadcast(to)))
}

fn flip<T: Element>(x: Tensor<'_, T>, axes: impl Into<Axes>) -> TensorResult<'_, T> {
    let shape = x.known_shape()?;
    let axes = axes.into().resolve(&shape)?;
    let ranges = shape.dims().iter().enumerate().map(|(axis, &count)| {
        if axes.contains(&axis) && count > 0 {
            Range { start: count as i64 - 1, step: -1, count }
        } else {
            Range { start: 0, step: 1, count }
        }
    });
    Ok(moved("flip", x, Move::Slice(ranges.collect())))
}

fn pad<T: Element>(
    x: Tensor<'_, T>,
    border: impl AsRef<[(usize, usize)]>,
    value: T,
) -> TensorResult<'_, T> {
    let (shape, border) = (x.known_shape()?, border.as_ref());
    if border.len() != shape.rank() {
        return Err(MistakeKind::PerAxis { what: "a border", given: border.len(), shape }.into());
    }
    let before = border.iter().map(|&(before, _)| before).collect();
    let after = border.iter().map(|&(_, after)| after).collect();
    Ok(x.apply(Op::Pad { before, after, value: value.scalar() }))
}

fn replace_slice<'b, T: Element>(
    state: Tensor<'b, T>,
    new: Tensor<'b, T>,
    axis: isize,
    at: usize,
) -> TensorResult<'b, T> {
    let (shape, own) = (state.known_shape()?, new.known_shape()?);
    let axis = resolve(axis, &shape)?;
    let fits = |a: usize| a == axis || own[a] == shape[a];
    if own.rank() != shape.rank() || !(0..shape.rank()).all(fits) {
        return Err(MistakeKind::Concat { first: shape, other: own, axis }.into());
    }
    let (count, end) = (own[axis], at.saturating_add(own[axis]));
    if end > shape[axis] {
        return Err(MistakeKind::SliceRange { start: at, end, axis, shape }.into());
    }
    let part = |from: usize, to: usize| along(state, &shape, axis, from..to);
    let (before, after) = (part(0, at), part(end, shape[axis]));
    let replaced = state.batch().concat([before, new, after], axis as isize);
    let patch = Patch::new(&shape, axis, at, count);
    let slice = SliceUpdate { state: state.value().node, new: new.value().node, patch };
    state.batch().note_slice_update(replaced.value().node, slice);
    Ok(replaced)
}
