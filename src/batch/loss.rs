//! Losses of differences, made of other operations: what can be fused is, and most are one or two kernels.

use super::{BufferId, GpuCommandBatch, Refusal};
use crate::base::dtype::Float;
use crate::base::shape::Shape;
use crate::error::MistakeKind;

/// What becomes of the losses of the single elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LossReduction {
    /// They are the result.
    None,
    /// Their mean; NaN over no elements.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

/// Losses. They are computed in `f32` and rounded once, if at all.
impl GpuCommandBatch {
    /// (x − y)². The shapes must be equal.
    #[track_caller]
    pub fn mse_loss<T: Float>(
        &mut self,
        x: BufferId<T>,
        y: BufferId<T>,
        reduction: LossReduction,
    ) -> BufferId<T> {
        self.loss_of_difference("mse_loss", x, y, reduction, |b, d| b.square(d))
    }

    /// |x − y|. The shapes must be equal.
    #[track_caller]
    pub fn l1_loss<T: Float>(
        &mut self,
        x: BufferId<T>,
        y: BufferId<T>,
        reduction: LossReduction,
    ) -> BufferId<T> {
        self.loss_of_difference("l1_loss", x, y, reduction, |b, d| b.abs(d))
    }

    /// With d = x − y: ½·d² where |d| ≤ `delta`, else `delta`·(|d| − ½·`delta`) (Huber, 1964). The shapes must be
    /// equal, and `delta` greater than 0.
    #[track_caller]
    pub fn huber_loss<T: Float>(
        &mut self,
        x: BufferId<T>,
        y: BufferId<T>,
        delta: f32,
        reduction: LossReduction,
    ) -> BufferId<T> {
        if delta.is_nan() || delta <= 0.0 {
            let given = delta.to_string();
            let what = MistakeKind::Parameter { what: "delta", must: "greater than 0", given };
            return self.mistake("huber_loss", what);
        }
        self.loss_of_difference("huber_loss", x, y, reduction, |b, d| b.huber(d, delta, 1.0))
    }

    /// With d = x − y: ½·d²/`beta` where |d| < `beta`, else |d| − ½·`beta` (Girshick, 2015). The shapes must be
    /// equal, and `beta` not negative; with 0 it is [`l1_loss`](Self::l1_loss).
    #[track_caller]
    pub fn smooth_l1_loss<T: Float>(
        &mut self,
        x: BufferId<T>,
        y: BufferId<T>,
        beta: f32,
        reduction: LossReduction,
    ) -> BufferId<T> {
        if beta.is_nan() || beta < 0.0 {
            let given = beta.to_string();
            let what = MistakeKind::Parameter { what: "beta", must: "0 or greater", given };
            return self.mistake("smooth_l1_loss", what);
        }
        self.loss_of_difference("smooth_l1_loss", x, y, reduction, |b, d| match beta {
            0.0 => b.abs(d),
            _ => b.huber(d, beta, 1.0 / beta),
        })
    }

    /// −y·log σ(x) − (1 − y)·log(1 − σ(x)) for logits `x` and probabilities `y`, without overflow. The shapes must
    /// be equal.
    #[track_caller]
    pub fn binary_cross_entropy_with_logits<T: Float>(
        &mut self,
        x: BufferId<T>,
        y: BufferId<T>,
        reduction: LossReduction,
    ) -> BufferId<T> {
        self.composed_if("binary_cross_entropy_with_logits", |b| {
            let shape = b.equal_shapes(x, y)?;
            let (x, y) = (b.cast::<T, f32>(x), b.cast::<T, f32>(y));
            // max(x, 0) − x·y + log(1 + e^−|x|): where the first two cancel, they do so exactly.
            let (positive, product) = (b.relu(x), b.mul(x, y));
            let line = b.sub(positive, product);
            let size = b.abs(x);
            let decay = b.neg(size);
            let decay = b.exp(decay);
            let rest = b.log1p(decay);
            let losses = b.add(line, rest);
            Ok(b.reduced(losses, shape.elements(), reduction))
        })
    }
}

impl GpuCommandBatch {
    /// ½·`factor`·d² where |d| ≤ `delta`, else `factor`·`delta`·(|d| − ½·`delta`). Both are equal where they meet.
    fn huber(&mut self, d: BufferId<f32>, delta: f32, factor: f32) -> BufferId<f32> {
        let size = self.abs(d);
        let limit = self.full([], delta);
        let near = self.le(size, limit);
        let square = self.square(d);
        let square = self.scale(square, 0.5 * factor);
        let line = self.add_scalar(size, -0.5 * delta);
        let line = self.scale(line, delta * factor);
        self.select(near, square, line)
    }

    #[track_caller]
    fn loss_of_difference<T: Float>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        y: BufferId<T>,
        reduction: LossReduction,
        loss: impl FnOnce(&mut Self, BufferId<f32>) -> BufferId<f32>,
    ) -> BufferId<T> {
        self.composed_if(name, |b| {
            let shape = b.equal_shapes(x, y)?;
            let (x, y) = (b.cast::<T, f32>(x), b.cast::<T, f32>(y));
            let difference = b.sub(x, y);
            let losses = loss(b, difference);
            Ok(b.reduced(losses, shape.elements(), reduction))
        })
    }

    #[track_caller]
    pub(super) fn reduced<T: Float>(
        &mut self,
        losses: BufferId<f32>,
        count: usize,
        reduction: LossReduction,
    ) -> BufferId<T> {
        let result = match reduction {
            LossReduction::None => losses,
            LossReduction::Sum => self.sum(losses, ..),
            LossReduction::Mean => self.mean_of(losses, count),
        };
        self.cast(result)
    }

    /// The sum of all elements, divided by `count`.
    #[track_caller]
    pub(super) fn mean_of(&mut self, x: BufferId<f32>, count: usize) -> BufferId<f32> {
        let total = self.sum(x, ..);
        let count = self.full([], count as f32);
        self.div(total, count)
    }

    /// The shape that both have.
    pub(super) fn equal_shapes<T: Float>(
        &self,
        x: BufferId<T>,
        y: BufferId<T>,
    ) -> Result<Shape, Refusal> {
        let (a, b) = (self.shape_of(x)?, self.shape_of(y)?);
        if a == b { Ok(a) } else { Err(MistakeKind::UnequalShapes(a, b).into()) }
    }
}
