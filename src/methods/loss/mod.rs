//! Losses of differences, made of other operations. Most fuse into one or two kernels.

pub(super) mod class;

pub use class::ClassLoss;

use crate::base::dtype::{Element, Float};
use crate::base::shape::Shape;
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::check_parameter;
use crate::record::Refusal;

/// The reduction of the losses of the single elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LossReduction {
    /// The losses as they are.
    None,
    /// The mean of the losses; NaN over no elements.
    #[default]
    Mean,
    /// The sum of the losses.
    Sum,
}

operations! {
    /// Losses. They are computed in `f32` and rounded once, if at all.
    "loss";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch, LossReduction};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let (x, y) = (batch.upload(&[1.0_f32, 4.0]), batch.upload(&[1.0_f32, 1.0]));
        /// let (sum, mean) = (LossReduction::Sum, LossReduction::Mean);
        /// let results = [
        ///     (x.mse_loss(y, mean), [4.5]),
        ///     (x.l1_loss(y, sum), [3.0]),
        ///     (x.huber_loss(y, 1.0, sum), [2.5]),
        ///     (x.smooth_l1_loss(y, 2.0, sum), [2.0]),
        ///     (x.binary_cross_entropy_with_logits(y, sum), [0.3314]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// (x − y)², of the shape of x, or reduced to one element by `reduction`. The shapes must be equal.
    fn mse_loss<T: Float>(x: T, y: T; reduction: LossReduction) -> Tensor<'b, T> = difference_loss(x, y, reduction, |d| d.square()),
        FLOAT, LAYER, COMPOSED, "(x − y)².";
    /// |x − y|, of the shape of x, or reduced to one element by `reduction`. The shapes must be equal.
    fn l1_loss<T: Float>(x: T, y: T; reduction: LossReduction) -> Tensor<'b, T> = difference_loss(x, y, reduction, |d| d.abs()),
        FLOAT, LAYER, COMPOSED, "|x − y|.";
    /// With d = x − y: ½·d² where |d| ≤ `delta`, else `delta`·(|d| − ½·`delta`) (Huber, 1964). The shapes must be
    /// equal, and `delta` greater than 0.
    fn huber_loss<T: Float>(x: T, y: T; delta: f32, reduction: LossReduction) -> Tensor<'b, T> = {
        check_parameter("delta", delta > 0.0, "greater than 0", &delta)?;
        difference_loss(x, y, reduction, |d| huber(d, delta, 1.0))
    },
        FLOAT, LAYER, COMPOSED, "½·(x − y)², and a line far from 0 (Huber, 1964).";
    /// With d = x − y: ½·d²/`beta` where |d| < `beta`, else |d| − ½·`beta` (Girshick, 2015). The shapes must be
    /// equal, and `beta` not negative; with 0 it is [`l1_loss`](Self::l1_loss).
    fn smooth_l1_loss<T: Float>(x: T, y: T; beta: f32, reduction: LossReduction) -> Tensor<'b, T> = {
        check_parameter("beta", beta >= 0.0, "0 or greater", &beta)?;
        let loss = |d: Tensor<'b, f32>| if beta == 0.0 { d.abs() } else { huber(d, beta, 1.0 / beta) };
        difference_loss(x, y, reduction, loss)
    },
        FLOAT, LAYER, COMPOSED, "|x − y|, and a parabola near 0 (Girshick, 2015).";
    /// −y·log σ(x) − (1 − y)·log(1 − σ(x)) for logits `x` and probabilities `y`, without overflow. The shapes must
    /// be equal.
    fn binary_cross_entropy_with_logits<T: Float>(x: T, y: T; reduction: LossReduction) -> Tensor<'b, T> = binary_cross_entropy_with_logits(x, y, reduction),
        FLOAT, LAYER, COMPOSED, "−y·log σ(x) − (1 − y)·log(1 − σ(x)).";
}

fn binary_cross_entropy_with_logits<'b, T: Float>(
    x: Tensor<'b, T>,
    y: Tensor<'b, T>,
    reduction: LossReduction,
) -> TensorResult<'b, T> {
    equal_shapes(x, y)?;
    let (x, y) = (x.cast::<f32>(), y.cast::<f32>());
    // max(x, 0) − x·y + log(1 + e^−|x|): where the first two cancel, they do so exactly.
    let losses = (x.relu() - x * y) + (-x.abs()).exp().log1p();
    Ok(reduced(losses, reduction))
}

/// ½·`factor`·d² where |d| ≤ `delta`, else `factor`·`delta`·(|d| − ½·`delta`). Both are equal where they meet.
fn huber(d: Tensor<'_, f32>, delta: f32, factor: f32) -> Tensor<'_, f32> {
    let size = d.abs();
    let near = size.le(delta);
    let square = d.square().scale(0.5 * factor);
    let line = size.add_scalar(-0.5 * delta).scale(delta * factor);
    near.select(square, line)
}

/// The loss that is a function of x − y in `f32`.
fn difference_loss<'b, T: Float>(
    x: Tensor<'b, T>,
    y: Tensor<'b, T>,
    reduction: LossReduction,
    loss: impl FnOnce(Tensor<'b, f32>) -> Tensor<'b, f32>,
) -> TensorResult<'b, T> {
    equal_shapes(x, y)?;
    let (x, y) = (x.cast::<f32>(), y.cast::<f32>());
    Ok(reduced(loss(x - y), reduction))
}

fn reduced<T: Float>(losses: Tensor<'_, f32>, reduction: LossReduction) -> Tensor<'_, T> {
    let result = match reduction {
        LossReduction::None => losses,
        LossReduction::Sum => losses.sum(..),
        LossReduction::Mean => losses.mean(..),
    };
    result.cast()
}

/// The shape that both have.
fn equal_shapes<'b, T: Float>(x: Tensor<'b, T>, y: Tensor<'b, T>) -> Result<Shape, Refusal> {
    let (a, b) = (x.known_shape()?, y.known_shape()?);
    if a == b { Ok(a) } else { Err(MistakeKind::UnequalShapes(a, b).into()) }
}
