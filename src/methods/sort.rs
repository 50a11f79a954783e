//! Sorts, and operations made of them.

use crate::base::dtype::Element;
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::axes::resolve;
use crate::ops::{Op, Sort, SortOrder, Sorted};

operations! {
    /// Sorts along `axis`, which may count from the last (−1). All are stable: equal elements keep their order, whether
    /// ascending or descending. NaN is past all numbers, as in PyTorch: last where ascending, first where descending.
    /// −0 equals 0, and comes out as 0. Positions are along the axis. The results of one order of one tensor share the
    /// work.
    "sort";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch, SortOrder};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload(&[2.0_f32, 3.0, 1.0]);
        /// let (sorted, positions) = (x.sort(0, SortOrder::Ascending), x.argsort(0, SortOrder::Ascending));
        /// let (best, at) = x.top_k(2, 0, SortOrder::Descending);
        /// batch.execute().await?;
        /// assert_eq!(batch.read(sorted).await?, [1.0, 2.0, 3.0]);
        /// assert_eq!(batch.read(positions).await?, [2, 0, 1]);
        /// assert_eq!(batch.read(best).await?, [3.0, 2.0]);
        /// assert_eq!(batch.read(at).await?, [1, 0]);
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// The elements in order, of the shape of x.
    fn sort<T: Element>(x: T; axis: isize, order: SortOrder) -> Tensor<'b, T> = sorted(x, axis, order, None, Sorted::Values),
        ALL, BEFORE, EXACT, "The elements along `axis` in order; stable, NaN past all numbers.";
    /// The positions along the axis that the elements of [`sort`](Self::sort) had, of the shape of x.
    fn argsort<T: Element>(x: T; axis: isize, order: SortOrder) -> Tensor<'b, u32> = sorted(x, axis, order, None, Sorted::Positions),
        ALL, BEFORE, EXACT, "Where along `axis` the elements in order are.";
    /// The first `k` elements in order, and where they were: the greatest where it is [`SortOrder::Descending`], else
    /// the least; of equal elements the first ones. Both results have the shape of x with k along `axis`. It is a mistake if the
    /// axis is shorter than k.
    #[doc(alias = "topk")]
    fn top_k<T: Element>(x: T; k: usize, axis: isize, order: SortOrder) -> (Tensor<'b, T>, Tensor<'b, u32>) = {
        let values = sorted(x, axis, order, Some(k), Sorted::Values)?;
        Ok((values, sorted(x, axis, order, Some(k), Sorted::Positions)?))
    },
        ALL, BEFORE, EXACT, "The first `k` of an order along `axis`, and where they are.";
}

fn sorted<T: Element, U: Element>(
    x: Tensor<'_, T>,
    axis: isize,
    order: SortOrder,
    top: Option<usize>,
    part: Sorted,
) -> TensorResult<'_, U> {
    let shape = x.known_shape()?;
    let axis = resolve(axis, &shape)?;
    if let Some(k) = top.filter(|&k| k > shape[axis]) {
        let (most, limit) = (shape[axis], "the length of the axis");
        return Err(MistakeKind::AtMost { what: "k", most, limit, given: k }.into());
    }
    Ok(x.apply(Op::Sort { how: Sort { axis, order, top }, part }))
}
