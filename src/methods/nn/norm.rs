//! Normalisations of channels and groups of them.

use smallvec::smallvec;

use crate::base::dtype::{Element, Float, Scalar};
use crate::base::shape::Shape;
use crate::batch::{GpuCommandBatch, Operand, OptionalOperand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::{check_shape, layout};
use crate::methods::rows::{check_epsilon, normalized};
use crate::ops::{Elementwise, Normalization, Op};

operations! {
    /// Normalisations of `[batch, channels, …]`, with a `weight` and a `bias` of `[channels]` where they are given, as in
    /// PyTorch. It is a mistake if ε is negative or not finite.
    "normalization";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload_shaped(&[3.0_f32, 5.0], [1, 2, 1]);
        /// let (mean, variance) = (batch.full([2], 1.0_f32), batch.full([2], 4.0_f32));
        /// let results = [
        ///     (x.batch_norm(mean, variance, None, None, 0.0), [1.0, 2.0]),
        ///     (x.group_norm(1, None, None, 0.0), [-1.0, 1.0]),
        ///     (x.reshape([1, 1, 2]).instance_norm(None, None, 0.0), [-1.0, 1.0]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// (x − mean) / √(variance + ε) · weight + bias with given means and variances of `[channels]`: batch normalisation
    /// once a network is trained. Elementwise, so that it fuses into the kernel of a convolution or product before it.
    /// The convolution's weights are not rescaled: means and variances may differ in each run, and rescaling would be a
    /// pass over the weights.
    fn batch_norm<T: Float>(x: T, mean: T, variance: T; weight: impl OptionalOperand<T>, bias: impl OptionalOperand<T>, epsilon: f32) -> Tensor<'b, T> = batch_norm(x, [mean, variance], [x.optional(weight), x.optional(bias)], epsilon),
        FLOAT, ANYTHING, NORMED, "Channels by given means and variances.";
    /// (x − mean) / √(variance + ε) · weight + bias, with mean and variance (over n) of each group of channels of each
    /// element of the batch (Wu and He, 2018). One kernel, and one more for weight and bias where groups have several
    /// channels.
    fn group_norm<T: Float>(x: T; groups: usize, weight: impl OptionalOperand<T>, bias: impl OptionalOperand<T>, epsilon: f32) -> Tensor<'b, T> = group_norm(x, Some(groups), [x.optional(weight), x.optional(bias)], epsilon),
        FLOAT, BEFORE, NORMED, "Groups of channels by their own means and variances.";
    /// As [`group_norm`](Self::group_norm) with each channel a group of its own (Ulyanov et al., 2016): one kernel.
    fn instance_norm<T: Float>(x: T; weight: impl OptionalOperand<T>, bias: impl OptionalOperand<T>, epsilon: f32) -> Tensor<'b, T> = group_norm(x, None, [x.optional(weight), x.optional(bias)], epsilon),
        FLOAT, AROUND, NORMED, "Each channel by its own mean and variance.";
}

fn batch_norm<'b, T: Float>(
    x: Tensor<'b, T>,
    [mean, variance]: [Tensor<'b, T>; 2],
    [weight, bias]: [Option<Tensor<'b, T>>; 2],
    epsilon: f32,
) -> TensorResult<'b, T> {
    let epsilon = check_epsilon(epsilon)?.value();
    let shape = x.known_shape()?;
    let columns = channel_columns(&shape)?;
    check_shape("mean", [mean], shape[1])?;
    check_shape("variance", [variance], shape[1])?;
    check_shape("weight", weight, shape[1])?;
    check_shape("bias", bias, shape[1])?;
    let addend = Scalar::new(T::DTYPE, epsilon);
    let shifted: Tensor<'b, T> =
        variance.apply(Op::Elementwise(Elementwise::AddScalar, smallvec![addend]));
    let scale = shifted.rsqrt();
    let scale = weight.map_or(scale, |weight| scale * weight);
    let (mean, scale) = (mean.reshape(columns.clone()), scale.reshape(columns.clone()));
    Ok(affine((x - mean) * scale, [None, bias], &columns))
}

fn group_norm<'b, T: Float>(
    x: Tensor<'b, T>,
    groups: Option<usize>,
    weights: [Option<Tensor<'b, T>>; 2],
    epsilon: f32,
) -> TensorResult<'b, T> {
    let epsilon = check_epsilon(epsilon)?;
    let shape = x.known_shape()?;
    let columns = channel_columns(&shape)?;
    let groups = groups.unwrap_or(shape[1]);
    let fits = if groups == 0 { shape[1] == 0 } else { shape[1].is_multiple_of(groups) };
    if !fits {
        return Err(MistakeKind::Groups { groups, shape }.into());
    }
    check_shape("weight", weights[0], shape[1])?;
    check_shape("bias", weights[1], shape[1])?;
    let each = shape.dims()[2..].iter().product::<usize>() * shape[1] / groups.max(1);
    let rows = x.reshape([shape[0], groups, each]);
    let normed = normalized(Normalization::LayerNorm(epsilon), rows, 2)?.reshape(shape);
    Ok(affine(normed, weights, &columns))
}

/// x · weight + bias, as far as they are given.
fn affine<'b, T: Float>(
    x: Tensor<'b, T>,
    [weight, bias]: [Option<Tensor<'b, T>>; 2],
    columns: &Shape,
) -> Tensor<'b, T> {
    let y = weight.map_or(x, |weight| x * weight.reshape(columns.clone()));
    bias.map_or(y, |bias| y + bias.reshape(columns.clone()))
}

/// The shape in which one number a channel broadcasts over `[batch, channels, …]`.
fn channel_columns(shape: &Shape) -> Result<Shape, MistakeKind> {
    if shape.rank() < 2 {
        return Err(layout("[batch, channels, …]", shape));
    }
    let dims = shape.dims().iter().enumerate();
    Ok(dims.skip(1).map(|(axis, &dim)| if axis == 1 { dim } else { 1 }).collect())
}
