//! Matrix products.

pub(super) mod einsum;

use crate::base::dtype::{Element, Float, Numeric};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::CHANGE_ONE;
use crate::ops::{Op, Precision};

operations! {
    /// Matrix products.
    "matmul";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch, Precision};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload_shaped(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
        /// let results = [
        ///     (x.matmul(x), [7.0, 10.0, 15.0, 22.0]),
        ///     (x.matmul_with(x, Precision::Split), [7.0, 10.0, 15.0, 22.0]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// The matrix product by NumPy's rules: `[…, m, k] · […, k, n]` is `[…, m, n]` with leading dimensions
    /// broadcast; a vector on the left is a row, on the right a column, whose axis vanishes.
    /// Transposed operands cost nothing. `f16` is summed in `f32`; integers wrap. It is a mistake if an operand is a scalar,
    /// if the sizes k differ, or if leading dimensions do not broadcast.
    #[doc(alias = "dot")]
    #[doc(alias = "bmm")]
    #[doc(alias = "mm")]
    fn matmul<T: Numeric>(x: T, w: T) -> Tensor<'b, T> = Ok(product(x, w, Precision::Exact)),
        NUMERIC, TURNED, SUMMED, "The matrix product by NumPy's rules for 1-D, 2-D and batched operands.";
    /// As [`matmul`](Self::matmul), as exactly as `precision` says: see [`Precision`] for the cost of each choice.
    /// `f16` products are the same with all of them.
    fn matmul_with<T: Float>(x: T, w: T; precision: Precision) -> Tensor<'b, T> = Ok(product(x, w, precision)),
        FLOAT, TURNED, SUMMED, "The matrix product, as exact as asked for: `f32` may be multiplied on matrix units.";
    /// x·w + b, a dense layer: `x` of `[…, inputs]`, `w` of `[inputs, outputs]`, and `b` of `[outputs]` or another shape that
    /// broadcasts to that of x·w, `[…, outputs]`. It is a mistake if `b` broadcasts to more. PyTorch's `Linear` stores [outputs, inputs]: [`transpose`](Self::transpose) that, or read the
    /// file by `Weights::resident_transposed`. Weights
    /// that stay on the device are residents, and stand as `&w`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let w = device.resident(&[1.0_f32, 3.0, 2.0, 4.0], [2, 2])?;
    /// let b = device.resident(&[0.5_f32, 0.25], 2)?;
    /// let batch = GpuCommandBatch::new(&device);
    /// let x = batch.upload_shaped(&[1.0_f32, 10.0], [1, 2]);
    /// let y = x.linear(&w, &b);
    /// let weight = batch.upload_shaped(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]); // As PyTorch stores it.
    /// let same = x.linear(weight.transpose(), &b);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(y).await?, [21.5, 43.25]);
    /// assert_eq!(batch.read(same).await?, [21.5, 43.25]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "dense")]
    #[doc(alias = "addmm")]
    fn linear<T: Numeric>(x: T, w: T, b: T) -> Tensor<'b, T> = linear(x, w, b),
        NUMERIC, TURNED, SUMMED, "x·w + b.";
}

fn linear<'b, T: Numeric>(
    x: Tensor<'b, T>,
    w: Tensor<'b, T>,
    b: Tensor<'b, T>,
) -> TensorResult<'b, T> {
    let y = x.matmul(w);
    let (from, to) = (b.known_shape()?, y.known_shape()?);
    match to.broadcast(&from) {
        Some(grown) if grown == to => Ok(y + b),
        // A bias that would make the result larger is a mistake.
        Some(_) => Err(MistakeKind::BroadcastTo { from, to }.into()),
        None => {
            let wanted = to.dims().last().copied().into_iter().collect();
            let fix = CHANGE_ONE.into();
            Err(MistakeKind::LayerShape { what: "bias", given: from, wanted, fix }.into())
        }
    }
}

pub(super) fn product<'b, T: Numeric>(
    x: Tensor<'b, T>,
    w: Tensor<'b, T>,
    precision: Precision,
) -> Tensor<'b, T> {
    x.batch().record(Op::MatMul(precision), &[x.value(), w.value()])
}
