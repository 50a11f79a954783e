//! Operations on rows: softmax and norms along one axis.

use crate::base::dtype::{DType, Element, Float, Scalar};
use crate::base::shape::Shape;
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::axes::resolve;
use crate::methods::arguments::checks::{check_parameter, check_shape};
use crate::ops::{Normalization, Op, row_table};

macro_rules! rows {
    ($($(#[doc = $doc:literal])* $(#[doc(alias = $alias:literal)])* $name:ident $op:ident $(($epsilon:ident: $scalar:ty))?, family $family:literal,
        words $words:literal, flops $flops:literal;)*) => {
        operations! {
            /// Softmax and norms along one axis, which may count from the last (−1).
            "row";
            example {
                ///
                /// ```
                /// # pollster::block_on(async {
                /// # use onetrip::{Device, GpuCommandBatch};
                /// let batch = GpuCommandBatch::new(&Device::cpu());
                /// let x = batch.upload(&[1.0_f32, 3.0]);
                /// let results = [
                ///     (x.softmax(0), [0.1192, 0.8808]),
                ///     (x.log_softmax(0), [-2.1269, -0.1269]),
                ///     (x.layer_norm(0, 0.0), [-1.0, 1.0]),
                ///     (x.rms_norm(0, 0.0), [0.4472, 1.3416]),
                ///     (x.l2_normalize(0, 0.0), [0.3162, 0.9487]),
                ///     (x.rms_norm_with(batch.upload(&[2.0_f32, 1.0]), 0, 0.0), [0.8944, 1.3416]),
                /// ];
                /// batch.execute().await?;
                /// for (result, expected) in results {
                ///     let values = batch.read(result).await?;
                ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
                /// }
                /// # Ok::<_, onetrip::Error>(()) }).unwrap();
                /// ```
            }
            $($(#[doc = $doc])* $(#[doc(alias = $alias)])*
            fn $name<T: Float>(x: T; axis: isize $(, $epsilon: f32)?) -> Tensor<'b, T> = {
                $(let $epsilon = check_epsilon($epsilon)?;)?
                normalized(Normalization::$op $(($epsilon))?, x, axis)
            };)*
        }
    };
}
row_table!(rows);

operations! {
    /// Norms of rows with a weight and a bias of `[n]`, where n is the size of `axis`. It is a mistake if they have another
    /// shape, or if ε is negative or not finite.
    "row";

    /// [`layer_norm`](Self::layer_norm) · weight + bias, as PyTorch's `LayerNorm` over one axis. One kernel.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let (weight, bias) = (device.resident(&[2.0_f32, 3.0], 2)?, device.resident(&[0.5_f32, 0.0], 2)?);
    /// let batch = GpuCommandBatch::new(&device);
    /// let x = batch.upload_shaped(&[1.0_f32, 3.0, 9.0, 5.0], [2, 2]);
    /// let y = x.layer_norm_with(&weight, &bias, -1, 0.0);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(y).await?, [-1.5, 3.0, 2.5, -3.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    fn layer_norm_with<T: Float>(x: T, weight: T, bias: T; axis: isize, epsilon: f32) -> Tensor<'b, T> = weighted(Normalization::LayerNorm, x, weight, Some(bias), axis, epsilon),
        FLOAT, AROUND, NORMED, "(x − mean) / √(variance + ε) · weight + bias.";
    /// [`rms_norm`](Self::rms_norm) · weight, as PyTorch's `RMSNorm` over one axis. One kernel.
    fn rms_norm_with<T: Float>(x: T, weight: T; axis: isize, epsilon: f32) -> Tensor<'b, T> = weighted(Normalization::RmsNorm, x, weight, None, axis, epsilon),
        FLOAT, AROUND, NORMED, "x / √(mean of x² + ε) · weight.";
}

fn weighted<'b, T: Float>(
    norm: impl Fn(Scalar) -> Normalization,
    x: Tensor<'b, T>,
    weight: Tensor<'b, T>,
    bias: Option<Tensor<'b, T>>,
    axis: isize,
    epsilon: f32,
) -> TensorResult<'b, T> {
    let op = norm(check_epsilon(epsilon)?);
    let weight = column("weight", weight, x, axis)?;
    let bias = bias.map(|bias| column("bias", bias, x, axis)).transpose()?;
    let y = normalized(op, x, axis)? * weight;
    Ok(bias.map_or(y, |bias| y + bias))
}

/// `numbers`, one for each element of `axis`, in the shape in which they broadcast over `x`.
fn column<'b, T: Float>(
    what: &'static str,
    numbers: Tensor<'b, T>,
    x: Tensor<'b, T>,
    axis: isize,
) -> TensorResult<'b, T> {
    let (own, shape) = (numbers.known_shape()?, x.known_shape()?);
    let axis = resolve(axis, &shape)?;
    check_shape(what, [numbers], shape[axis])?;
    let after = std::iter::repeat_n(1, shape.rank() - axis - 1);
    let dims: Shape = std::iter::once(shape[axis]).chain(after).collect();
    Ok(if dims == own { numbers } else { numbers.reshape(dims) })
}

pub(super) fn normalized<T: Float>(
    op: Normalization,
    x: Tensor<'_, T>,
    axis: isize,
) -> TensorResult<'_, T> {
    let axis = resolve(axis, &x.known_shape()?)?;
    Ok(x.apply(Op::Row { op, axis }))
}

pub(super) fn check_epsilon(epsilon: f32) -> Result<Scalar, MistakeKind> {
    let fits = epsilon.is_finite() && epsilon >= 0.0;
    check_parameter("epsilon", fits, "finite and not negative", &epsilon)?;
    Ok(Scalar::new(DType::F32, f64::from(epsilon)))
}
