//! Matrix products.

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{Float, Numeric};
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

    /// x·w + b: a dense layer, with `b` broadcast over the rows. The shapes are those of [`matmul`](Self::matmul), so
    /// `w` is [inputs, outputs]. PyTorch's `Linear` stores [outputs, inputs]: [`transpose`](Self::transpose) that.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload_shaped(&[1.0_f32, 10.0], [1, 2]);
    /// let weight = batch.upload_shaped(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]); // As PyTorch stores it.
    /// let w = batch.transpose(weight);
    /// let b = batch.upload(&[0.5_f32, 0.25]);
    /// let y = batch.linear(x, w, b);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(y).await?, [21.5, 43.25]);
    /// # Ok(())
    /// # }
    /// ```
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
