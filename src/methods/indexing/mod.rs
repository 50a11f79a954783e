//! Reading tensors at computed indices, writing at them, and comparing with them.

pub(super) mod counting;
pub(super) mod scatter;
pub(super) mod triangle;

use crate::base::dtype::{Element, Index, Numeric};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::methods::arguments::axes::resolve;
use crate::ops::{Op, SearchSide};

operations! {
    /// Indexing. Indices are `i32` or `u32` and count from 0. One that is negative, or not below the size of its axis, is a
    /// [`Fault`](crate::Fault): [`execute`](GpuCommandBatch::execute) returns it, and the run has no results.
    ///
    /// Indices are expressions like any other: they are computed where they are used, and later operations are fused
    /// too. The tensor that is read must be in memory: the result of an expression is stored first.
    "indexing";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch, SearchSide};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload_shaped(&[1_i32, 2, 3, 4], [2, 2]);
        /// let at = batch.upload(&[1_u32]);
        /// let swapped = batch.upload_shaped(&[1_u32, 0, 0, 1], [2, 2]);
        /// let steps = batch.upload(&[1_i32, 3, 3, 5]);
        /// let results = [x.gather(at, 0), x.embedding(at), x.take_along_axis(swapped, 1)];
        /// let place = steps.searchsorted(batch.upload(&[3_i32]), SearchSide::Left);
        /// batch.execute().await?;
        /// assert_eq!(batch.read(results[0]).await?, [3, 4]);
        /// assert_eq!(batch.read(results[1]).await?, [3, 4]);
        /// assert_eq!(batch.read(results[2]).await?, [2, 1, 3, 4]);
        /// assert_eq!(batch.read(place).await?, [1]);
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// The elements of `table` at `indices` along `axis`: the shape of `indices` stands in place of the axis. This is
    /// NumPy's `take`; PyTorch's `gather` is [`take_along_axis`](Self::take_along_axis).
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// let table = batch.upload_shaped(&[0.0_f32; 50], [10, 5]);
    /// let rows = batch.upload_shaped(&[3_u32, 3, 9, 0, 1, 2], [2, 3]);
    /// let y = batch.gather(table, rows, 0);
    /// assert_eq!(batch.shape(y).unwrap().dims(), [2, 3, 5]);
    /// ```
    #[doc(alias = "take")]
    #[doc(alias = "index_select")]
    fn gather<T: Element, I: Index>(table: T, indices: I; axis: isize) -> Tensor<'b, T> = looked_up(table, indices, axis, |axis| Op::Gather { name: "gather", axis }),
        ALL, STORED, EXACT, "Elements at indices along an axis.";
    /// The rows of `table` (its first axis) at `ids`: [`gather`](Self::gather) along axis 0. Of a table of `[n, …]` and ids of
    /// shape s, the result is `[s…, …]`.
    fn embedding<T: Element, I: Index>(table: T, ids: I) -> Tensor<'b, T> = looked_up(table, ids, 0, |axis| Op::Gather { name: "embedding", axis }),
        ALL, STORED, EXACT, "Rows at indices.";
    /// For each element its own index along `axis`: y[i, j] = x[indices[i, j], j] for axis 0 of a matrix. Off the axis
    /// the two shapes broadcast, as in NumPy (PyTorch calls this `gather`).
    #[doc(alias = "gather")]
    fn take_along_axis<T: Element, I: Index>(x: T, indices: I; axis: isize) -> Tensor<'b, T> = looked_up(x, indices, axis, |axis| Op::TakeAlong { name: "take_along_axis", axis }),
        ALL, STORED, EXACT, "For each element its own index along an axis.";
    /// For each value, the number of elements of the ascending vector `sorted` that are less; with
    /// [`SearchSide::Right`], the number that are not greater. The value would go there, before or after its equals.
    /// NaN counts as greater than all numbers, as in NumPy. The result has the shape of `values`. It is a mistake if
    /// `sorted` is no vector.
    fn searchsorted<T: Numeric>(sorted: T, values: T; side: SearchSide) -> Tensor<'b, u32> = Ok(sorted.batch().record(Op::SearchSorted { side }, &[sorted.value(), values.value()])),
        NUMERIC, "everything before and after; the vector searched is stored", EXACT, "Where numbers would go among ascending ones.";
}

fn looked_up<'b, T: Element, I: Index>(
    table: Tensor<'b, T>,
    indices: Tensor<'b, I>,
    axis: isize,
    op: impl Fn(usize) -> Op,
) -> TensorResult<'b, T> {
    let axis = resolve(axis, &table.known_shape()?)?;
    Ok(table.batch().record(op(axis), &[table.value(), indices.value()]))
}
