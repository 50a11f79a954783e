//! Writing tensors at computed indices.

use super::counting::range;
use crate::base::dtype::{Element, Index, Numeric};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::axes::resolve;
use crate::methods::arguments::checks::check_shape;
use crate::methods::movement::views;
use crate::ops::{Op, SearchSide, SortOrder};
use crate::record::{Refusal, UserCall};

operations! {
    /// Scatters: a tensor with updates at positions along an axis. `indices` is a vector of `i32` or `u32`: element i is the
    /// position in `x`, along `axis`, of slice i of the updates. Along the other axes both shapes are equal. An index out of
    /// range is a [`Fault`](crate::Fault).
    ///
    /// Updates are sorted by position, and those of one position combined in pairs, in their own order: neighbours, then
    /// those two apart, then four, and so on. So results are the same from run to run and on every device.
    "indexing";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload(&[5_i32, 6, 7]);
        /// let (at, new) = (batch.upload(&[0_u32, 2, 2]), batch.upload(&[1_i32, 9, 8]));
        /// let results = [
        ///     (x.scatter(at, new, 0), [1, 6, 8]),
        ///     (x.scatter_add(at, new, 0), [6, 6, 24]),
        ///     (x.scatter_max(at, new, 0), [5, 6, 9]),
        ///     (x.scatter_min(at, new, 0), [1, 6, 7]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert_eq!(values, expected);
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// `x` with updates in place of its elements. Where several have one place, the last is taken. This is PyTorch's
    /// `index_copy`: each index places a whole slice, not one element as PyTorch's `scatter` does.
    #[doc(alias = "index_copy")]
    fn scatter<T: Element, I: Index>(x: T, indices: I, updates: T; axis: isize) -> Tensor<'b, T> = scatter(x, indices, updates, axis),
        ALL, AROUND, EXACT, "A tensor with elements replaced at indices, the last of several.";
    /// `x` with the updates added. Integers wrap. This is PyTorch's `index_add`, not its `scatter_add`.
    #[doc(alias = "index_add")]
    fn scatter_add<T: Numeric, I: Index>(x: T, indices: I, updates: T; axis: isize) -> Tensor<'b, T> = combined(x, indices, updates, axis, |x, y| x + y),
        NUMERIC, AROUND, SUMMED, "A tensor with updates added at indices.";
    /// The greatest of each element of `x` and its updates; NaN if any is NaN.
    fn scatter_max<T: Numeric, I: Index>(x: T, indices: I, updates: T; axis: isize) -> Tensor<'b, T> = combined(x, indices, updates, axis, |x, y| x.max(y)),
        NUMERIC, AROUND, EXACT, "The greatest of elements and their updates.";
    /// The least of each element of `x` and its updates; NaN if any is NaN.
    fn scatter_min<T: Numeric, I: Index>(x: T, indices: I, updates: T; axis: isize) -> Tensor<'b, T> = combined(x, indices, updates, axis, |x, y| x.min(y)),
        NUMERIC, AROUND, EXACT, "The least of elements and their updates.";
}

/// The parts that scatters share, for operands that fit.
struct ScatterParts<'b, I> {
    /// The updates in the order of their places, those of one place in their own.
    order: Tensor<'b, u32>,
    /// The places in that order.
    sorted: Tensor<'b, I>,
    /// For each place whether it has updates, over the axes of the tensor.
    written: Tensor<'b, bool>,
    /// For each place the position of its last update in that order; 0 where there is none.
    last: Tensor<'b, u32>,
    axis: usize,
    /// The number of axes of the tensor.
    rank: usize,
    /// The number of updates; not 0.
    count: usize,
}

fn scatter<'b, T: Element, I: Index>(
    x: Tensor<'b, T>,
    indices: Tensor<'b, I>,
    updates: Tensor<'b, T>,
    axis: isize,
) -> TensorResult<'b, T> {
    let Some(scattered) = scattered(x, indices, updates, axis)? else { return Ok(x) };
    let ScatterParts { order, written, last, axis, .. } = scattered;
    let taken = updates.gather(order.gather(last, 0), axis as isize);
    Ok(written.select(taken, x))
}

/// Checks the operands of a scatter, and sorts the places. `None` where there are no updates.
fn scattered<'b, T: Element, I: Index>(
    x: Tensor<'b, T>,
    indices: Tensor<'b, I>,
    updates: Tensor<'b, T>,
    axis: isize,
) -> Result<Option<ScatterParts<'b, I>>, Refusal> {
    let (target, places) = (x.known_shape()?, indices.known_shape()?);
    let axis = resolve(axis, &target)?;
    let count = places.elements();
    let mut fits = target.dims().to_vec();
    fits[axis] = count;
    if places.rank() != 1 {
        return Err(MistakeKind::NotAVector(places).into());
    }
    check_shape("updates", [updates], fits)?;
    if count == 0 {
        return Ok(None);
    }
    let rank = target.rank();
    let range = range::<I>(x.batch(), target[axis]);
    let (name, size) = (UserCall::outer_name(), target[axis]);
    let indices: Tensor<'b, I> =
        indices.apply(Op::InRange { name, axis: Some(axis), size, ignored: None });
    let sorted = indices.sort(0, SortOrder::Ascending);
    let order = indices.argsort(0, SortOrder::Ascending);
    let [first, end] =
        [SearchSide::Left, SearchSide::Right].map(|side| sorted.searchsorted(range, side));
    let written = end.gt(first);
    let last = end - written.cast::<u32>();
    // Past a place without updates those of the next begin, or there are none.
    let last = written.select(last, 0);
    let written = column(written, axis, rank, size);
    Ok(Some(ScatterParts { order, sorted, written, last, axis, rank, count }))
}

/// `x` combined with the result of the updates of each place: a scan along the axis that begins anew at each place.
fn combined<'b, T: Numeric, I: Index>(
    x: Tensor<'b, T>,
    indices: Tensor<'b, I>,
    updates: Tensor<'b, T>,
    axis: isize,
    combine: impl Fn(Tensor<'b, T>, Tensor<'b, T>) -> Tensor<'b, T>,
) -> TensorResult<'b, T> {
    let Some(scattered) = scattered(x, indices, updates, axis)? else { return Ok(x) };
    let ScatterParts { order, sorted, written, last, axis, rank, count } = scattered;
    let mut sums = updates.gather(order, axis as isize);
    let mut step = 1;
    while step < count {
        let here = sorted.slice([(step..count, 1)]);
        let there = sorted.slice([(0..count - step, 1)]);
        let same = here.eq(there).pad([(step, 0)], false);
        let same = column(same, axis, rank, count);
        let before = shifted(sums, axis, step)?;
        sums = same.select(combine(before, sums), sums);
        step *= 2;
    }
    let all = sums.gather(last, axis as isize);
    Ok(written.select(combine(x, all), x))
}

/// Each element `step` further on along the axis, and 0 before the first.
fn shifted<T: Element>(x: Tensor<'_, T>, axis: usize, step: usize) -> TensorResult<'_, T> {
    let shape = x.known_shape()?;
    let first = views::along(x, &shape, axis, 0..shape[axis] - step);
    let border = (0..shape.rank()).map(|at| if at == axis { (step, 0) } else { (0, 0) });
    Ok(first.pad(border.collect::<Vec<_>>(), T::default()))
}

/// A vector of `len` elements along one axis of a tensor of `rank` axes, the others of size 1.
fn column<T: Element>(x: Tensor<'_, T>, axis: usize, rank: usize, len: usize) -> Tensor<'_, T> {
    let mut dims = vec![1; rank];
    dims[axis] = len;
    x.reshape(dims)
}
