//! Reading tensors at computed indices.

use super::axes::resolve;
use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{Element, Index, Numeric};
use crate::ops::{Op, Side};

/// Indexing. Indices are `i32` or `u32` and count from 0. One that is negative, or not below the size of its axis, is a
/// [`Fault`](crate::Fault): [`execute`](Self::execute) returns it, and the run has no results.
///
/// Indices are expressions like any other: they are computed where they are used, and what follows is fused too. The
/// tensor that is read must be in memory: what an expression gives is stored first.
impl GpuCommandBatch {
    /// The elements of `table` at `indices` along `axis`: the shape of `indices` stands in place of the axis.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// # let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let table = batch.upload_shaped(&[0.0_f32; 50], [10, 5]);
    /// let rows = batch.upload_shaped(&[3_u32, 3, 9, 0, 1, 2], [2, 3]);
    /// let y = batch.gather(table, rows, 0);
    /// assert_eq!(batch.shape(y).unwrap().dims(), [2, 3, 5]);
    /// ```
    #[doc(alias = "take")]
    #[doc(alias = "index_select")]
    #[track_caller]
    pub fn gather<T: Element, I: Index>(
        &mut self,
        table: BufferId<T>,
        indices: BufferId<I>,
        axis: isize,
    ) -> BufferId<T> {
        self.look_up(table, indices, axis, |axis| Op::Gather { name: "gather", axis })
    }

    /// The rows of `table` (its first axis) at `ids`: [`gather`](Self::gather) along axis 0.
    #[track_caller]
    pub fn embedding<T: Element, I: Index>(
        &mut self,
        table: BufferId<T>,
        ids: BufferId<I>,
    ) -> BufferId<T> {
        self.look_up(table, ids, 0, |axis| Op::Gather { name: "embedding", axis })
    }

    /// For each element its own index along `axis`: y[i, j] = x[indices[i, j], j] for axis 0 of a matrix. Off the axis
    /// the two shapes broadcast, as in NumPy (PyTorch calls this `gather`).
    #[track_caller]
    pub fn take_along_axis<T: Element, I: Index>(
        &mut self,
        x: BufferId<T>,
        indices: BufferId<I>,
        axis: isize,
    ) -> BufferId<T> {
        self.look_up(x, indices, axis, |axis| Op::TakeAlong { name: "take_along_axis", axis })
    }

    /// For each of `values` how many of the ascending numbers in the vector `sorted` are less; with [`Side::Right`],
    /// how many are not greater: where it would go before or after its equals. NaN counts as greater than all numbers,
    /// as in NumPy.
    #[track_caller]
    pub fn searchsorted<T: Numeric>(
        &mut self,
        sorted: BufferId<T>,
        values: BufferId<T>,
        side: Side,
    ) -> BufferId<u32> {
        let ids = [self.check(sorted), self.check(values)];
        self.record(Op::SearchSorted { side }, &ids)
    }

    #[track_caller]
    fn look_up<T: Element, I: Index>(
        &mut self,
        table: BufferId<T>,
        indices: BufferId<I>,
        axis: isize,
        op: impl Fn(usize) -> Op,
    ) -> BufferId<T> {
        let ids = [self.check(table), self.check(indices)];
        let axis = self.known_shape(&ids[0]).map_or(Ok(0), |shape| resolve(axis, &shape));
        match axis {
            Ok(axis) => self.record(op(axis), &ids),
            Err(what) => self.mistake::<T>(op(0).name(), what),
        }
    }
}
