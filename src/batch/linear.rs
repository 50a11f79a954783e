//! Matrix products.

use super::{BufferId, GpuCommandBatch};
use crate::dtype::{Float, Numeric};
use crate::ops::{Op, Precision};

impl GpuCommandBatch {
    /// The matrix product by NumPy's rules: `[…, m, k] · […, k, n]` is `[…, m, n]` with leading dimensions
    /// broadcast; a vector on the left is a row, on the right a column, whose axis vanishes.
    /// Transposed operands cost nothing. `f16` is summed in `f32`; integers wrap.
    #[track_caller]
    pub fn matmul<T: Numeric>(&mut self, x: BufferId<T>, w: BufferId<T>) -> BufferId<T> {
        let ids = [self.check(x), self.check(w)];
        self.record(Op::MatMul(Precision::Exact), &ids)
    }

    /// As [`matmul`](Self::matmul), as exactly as `precision` says: see [`Precision`] for what each choice costs.
    /// `f16` products are the same with all of them.
    #[track_caller]
    pub fn matmul_with<T: Float>(
        &mut self,
        x: BufferId<T>,
        w: BufferId<T>,
        precision: Precision,
    ) -> BufferId<T> {
        let ids = [self.check(x), self.check(w)];
        self.record(Op::MatMul(precision), &ids)
    }

    /// x·w + b: a dense layer, with `b` broadcast over the rows.
    #[track_caller]
    pub fn linear<T: Numeric>(
        &mut self,
        x: BufferId<T>,
        w: BufferId<T>,
        b: BufferId<T>,
    ) -> BufferId<T> {
        self.composed("linear", |batch| {
            let product = batch.matmul(x, w);
            batch.add(product, b)
        })
    }
}
