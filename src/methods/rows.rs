//! Operations on rows: softmax and norms along one axis.

use super::axes::resolve;
use crate::base::dtype::{DType, Element, Float, Scalar};
use crate::batch::{GpuCommandBatch, Made, Operand, Tensor};
use crate::error::MistakeKind;
use crate::ops::{Normalization, Op};

operations! {
    /// Softmax and norms along one axis.
    "row";

    /// e^(x − max) / Σ e^(x − max) along `axis`, which may count from the last (−1).
    fn softmax<T: Float>(x: T; axis: isize) -> Tensor<'b, T> = softmax;
    /// x − max − log Σ e^(x − max) along `axis`, which may count from the last (−1). Of an element far above all others,
    /// whose result is near 0, that is off by a few 2⁻²⁴, not by a few units in its own last place: as in PyTorch, the
    /// others' terms are added in `f32` to its 1.
    fn log_softmax<T: Float>(x: T; axis: isize) -> Tensor<'b, T> = log_softmax;
    /// (x − mean) / √(variance + ε) along `axis`, with the variance over n elements (Ba et al., 2016). A
    /// gain and a bias are a [`mul`](Self::mul) and an [`add`](Self::add), which become part of
    /// the same kernel. It is a mistake if ε is negative or not finite. On a GPU squares are taken in `f32`, which
    /// overflows past |x − mean| of 1e19.
    fn layer_norm<T: Float>(x: T; axis: isize, epsilon: f32) -> Tensor<'b, T> = layer_norm;
    /// x / √(mean of x² + ε) along `axis` (Zhang and Sennrich, 2019). A gain is a [`mul`](Self::mul),
    /// which becomes part of the same kernel. It is a mistake if ε is negative or not finite. On a GPU squares
    /// are taken in `f32`, which overflows past |x| of 1e19.
    fn rms_norm<T: Float>(x: T; axis: isize, epsilon: f32) -> Tensor<'b, T> = rms_norm;
    /// x / max(√Σx², ε) along `axis`, as PyTorch's `normalize`: rows of length 1, but for those shorter than ε. It is a
    /// mistake if ε is negative or not finite. On a GPU squares are taken in `f32`, which overflows past |x| of 1e19.
    fn l2_normalize<T: Float>(x: T; axis: isize, epsilon: f32) -> Tensor<'b, T> = l2_normalize;
}

fn softmax<T: Float>(x: Tensor<'_, T>, axis: isize) -> Made<'_, T> {
    normalized(Normalization::Softmax, x, axis)
}

fn log_softmax<T: Float>(x: Tensor<'_, T>, axis: isize) -> Made<'_, T> {
    normalized(Normalization::LogSoftmax, x, axis)
}

fn layer_norm<T: Float>(x: Tensor<'_, T>, axis: isize, epsilon: f32) -> Made<'_, T> {
    normalized(Normalization::LayerNorm(check_epsilon(epsilon)?), x, axis)
}

fn rms_norm<T: Float>(x: Tensor<'_, T>, axis: isize, epsilon: f32) -> Made<'_, T> {
    normalized(Normalization::RmsNorm(check_epsilon(epsilon)?), x, axis)
}

fn l2_normalize<T: Float>(x: Tensor<'_, T>, axis: isize, epsilon: f32) -> Made<'_, T> {
    normalized(Normalization::L2Normalize(check_epsilon(epsilon)?), x, axis)
}

pub(super) fn normalized<T: Float>(
    op: Normalization,
    x: Tensor<'_, T>,
    axis: isize,
) -> Made<'_, T> {
    let axis = resolve(axis, &x.known_shape()?)?;
    Ok(x.apply(Op::Row { op, axis }))
}

pub(super) fn check_epsilon(epsilon: f32) -> Result<Scalar, MistakeKind> {
    if epsilon.is_finite() && epsilon >= 0.0 {
        Ok(Scalar::new(DType::F32, f64::from(epsilon)))
    } else {
        let given = epsilon.to_string();
        Err(MistakeKind::Parameter { what: "epsilon", must: "finite and not negative", given })
    }
}
