//! Losses and metrics, made of other operations: what can be fused is, and most are one or two kernels.

use super::axes::resolve;
use super::{Axes, BufferId, GpuCommandBatch, Refusal};
use crate::dtype::{Float, Index};
use crate::error::MistakeKind;
use crate::shape::Shape;

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

/// How a loss over classes is computed. The default is PyTorch's, but that no class is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassLoss {
    /// The axis of the classes; `None` for axis 1, or 0 of a vector.
    pub axis: Option<isize>,
    /// A class whose elements count for nothing, neither in sums nor in means. It need not be a class that
    /// there is: PyTorch's default is −100.
    pub ignore: Option<i64>,
    /// The share of the target that is spread over all classes evenly, 0 to 1 (Szegedy et al., 2016).
    pub smoothing: f32,
    /// What becomes of the losses of the elements.
    pub reduction: LossReduction,
}

impl ClassLoss {
    /// Along which axis of `shape`, and whether the smoothing is a share.
    fn axis(&self, shape: &Shape) -> Result<usize, MistakeKind> {
        if !(0.0..=1.0).contains(&self.smoothing) {
            let given = self.smoothing.to_string();
            return Err(MistakeKind::Parameter { what: "smoothing", must: "0 to 1", given });
        }
        resolve(self.axis.unwrap_or(if shape.rank() > 1 { 1 } else { 0 }), shape)
    }
}

/// Losses and metrics. They are computed in `f32` and rounded once, if at all.
impl GpuCommandBatch {
    /// −log softmax(`logits`) along the axis of classes, at the class that `classes` names for each of the other
    /// elements: the shape of `classes` is that of `logits` without that axis. A class that there is not (and that
    /// is not ignored) counts as one of probability 0 that costs nothing.
    #[track_caller]
    pub fn cross_entropy<T: Float, I: Index>(
        &mut self,
        logits: BufferId<T>,
        classes: BufferId<I>,
        how: ClassLoss,
    ) -> BufferId<T> {
        self.class_loss("cross_entropy", logits, classes, how, true)
    }

    /// −Σ p·log softmax(`logits`) along the axis of classes, where p are `probabilities` of the shape of `logits`
    /// with [`smoothing`](ClassLoss::smoothing) applied. Its [`ignore`](ClassLoss::ignore) has no meaning here.
    #[track_caller]
    pub fn cross_entropy_with<T: Float>(
        &mut self,
        logits: BufferId<T>,
        probabilities: BufferId<T>,
        how: ClassLoss,
    ) -> BufferId<T> {
        const NAME: &str = "cross_entropy_with";
        let axis_of = |shape: Shape| Ok((how.axis(&shape)?, shape));
        let (axis, shape) = match self.equal_shapes(logits, probabilities).and_then(axis_of) {
            Ok(found) => found,
            Err(what) => return self.refused(NAME, what),
        };
        let (x, p) = (self.cast::<T, f32>(logits), self.cast::<T, f32>(probabilities));
        let p = match how.smoothing {
            0.0 => p,
            smoothing => {
                let p = self.scale(p, 1.0 - smoothing);
                self.add_scalar(p, smoothing / shape[axis] as f32)
            }
        };
        let surprise = self.surprise(x, axis, true);
        let losses = self.mul(p, surprise);
        let count = shape.elements() / shape[axis].max(1);
        let total = match how.reduction {
            LossReduction::None => self.sum(losses, axis as isize),
            LossReduction::Sum => self.sum(losses, ..),
            LossReduction::Mean => self.mean_of(losses, count),
        };
        self.cast(total)
    }

    /// As [`cross_entropy`](Self::cross_entropy), of `log_probabilities` instead of logits.
    #[track_caller]
    pub fn nll_loss<T: Float, I: Index>(
        &mut self,
        log_probabilities: BufferId<T>,
        classes: BufferId<I>,
        how: ClassLoss,
    ) -> BufferId<T> {
        self.class_loss("nll_loss", log_probabilities, classes, how, false)
    }

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
        const NAME: &str = "binary_cross_entropy_with_logits";
        let shape = match self.equal_shapes(x, y) {
            Ok(shape) => shape,
            Err(what) => return self.refused(NAME, what),
        };
        let (x, y) = (self.cast::<T, f32>(x), self.cast::<T, f32>(y));
        // max(x, 0) − x·y + log(1 + e^−|x|): where the first two cancel, they do so exactly.
        let (positive, product) = (self.relu(x), self.mul(x, y));
        let line = self.sub(positive, product);
        let size = self.abs(x);
        let decay = self.neg(size);
        let decay = self.exp(decay);
        let rest = self.log1p(decay);
        let losses = self.add(line, rest);
        self.reduced(losses, shape.elements(), reduction)
    }

    /// The share of elements whose greatest logit along `axis` is that of the class that `classes` names, a scalar.
    /// The shape of `classes` is that of `logits` without that axis. NaN over no elements.
    #[track_caller]
    pub fn accuracy<T: Float, I: Index>(
        &mut self,
        logits: BufferId<T>,
        classes: BufferId<I>,
        axis: isize,
    ) -> BufferId<f32> {
        const NAME: &str = "accuracy";
        let at = match self.class_axis(logits, classes, |shape| resolve(axis, shape)) {
            Ok(at) => at,
            Err(what) => return self.refused(NAME, what),
        };
        let best = self.argmax(logits, at.axis as isize);
        let classes = self.cast::<I, u32>(classes);
        let hits = self.eq(best, classes);
        let hits = self.cast::<bool, f32>(hits);
        self.mean_of(hits, at.count)
    }
}

/// Where the classes are.
struct Classes {
    axis: usize,
    /// How many there are.
    size: usize,
    rank: usize,
    /// Elements that have a class each.
    count: usize,
}

impl GpuCommandBatch {
    /// Σ over classes c of t·(log Σ eˣ − x), or −t·x where x are log-probabilities already, with t the target.
    #[track_caller]
    fn class_loss<T: Float, I: Index>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        classes: BufferId<I>,
        how: ClassLoss,
        logits: bool,
    ) -> BufferId<T> {
        let at = match self.class_axis(x, classes, |shape| how.axis(shape)) {
            Ok(at) => at,
            Err(what) => return self.refused(name, what),
        };
        let x = self.cast::<T, f32>(x);
        let surprise = self.surprise(x, at.axis, logits);
        let classes = self.cast::<I, i32>(classes);
        let along = self.unsqueeze(classes, at.axis as isize);
        let zero = self.full([], 0.0_f32);
        let hit = self.is_class(along, &at);
        let mut losses = self.select(hit, surprise, zero);
        if how.smoothing > 0.0 {
            let even = self.scale(surprise, how.smoothing / at.size as f32);
            let hits = self.scale(losses, 1.0 - how.smoothing);
            losses = self.add(hits, even);
        }
        let counted = how.ignore.map(|ignored| {
            // A class that no element can name is ignored by itself.
            let ignored = i32::try_from(ignored).unwrap_or(i32::MIN);
            let ignored = self.full([], ignored);
            self.ne(classes, ignored)
        });
        if let Some(counted) = counted {
            let counted = self.unsqueeze(counted, at.axis as isize);
            losses = self.select(counted, losses, zero);
        }
        let total = match (how.reduction, counted) {
            (LossReduction::None, _) => self.sum(losses, at.axis as isize),
            (LossReduction::Sum, _) => self.sum(losses, ..),
            (LossReduction::Mean, None) => self.mean_of(losses, at.count),
            (LossReduction::Mean, Some(counted)) => {
                let counted = self.cast::<bool, f32>(counted);
                let (total, count) = (self.sum(losses, ..), self.sum(counted, ..));
                self.div(total, count)
            }
        };
        self.cast(total)
    }

    /// −log p of each class, from logits or from log p.
    #[track_caller]
    fn surprise(&mut self, x: BufferId<f32>, axis: usize, logits: bool) -> BufferId<f32> {
        if !logits {
            return self.neg(x);
        }
        let total = self.logsumexp(x, Axes::from(axis as isize).keep_dims());
        self.sub(total, x)
    }

    /// Whether the coordinate along the axis of classes is the class.
    #[track_caller]
    fn is_class(&mut self, classes: BufferId<i32>, at: &Classes) -> BufferId<bool> {
        let each = self.arange(0, i32::try_from(at.size).unwrap_or(i32::MAX), 1);
        let mut shape = vec![1; at.rank];
        shape[at.axis] = at.size;
        let each = self.reshape(each, shape);
        self.eq(each, classes)
    }

    /// ½·`factor`·d² where |d| ≤ `delta`, else `factor`·`delta`·(|d| − ½·`delta`). Both are equal where they meet.
    #[track_caller]
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
        let shape = match self.equal_shapes(x, y) {
            Ok(shape) => shape,
            Err(what) => return self.refused(name, what),
        };
        let (x, y) = (self.cast::<T, f32>(x), self.cast::<T, f32>(y));
        let difference = self.sub(x, y);
        let losses = loss(self, difference);
        self.reduced(losses, shape.elements(), reduction)
    }

    #[track_caller]
    fn reduced<T: Float>(
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
    fn mean_of(&mut self, x: BufferId<f32>, count: usize) -> BufferId<f32> {
        let total = self.sum(x, ..);
        let count = self.full([], count as f32);
        self.div(total, count)
    }

    /// The axis of the classes that `axis` finds, where `classes` has the shape of `x` without it.
    fn class_axis<T: Float, I: Index>(
        &self,
        x: BufferId<T>,
        classes: BufferId<I>,
        axis: impl FnOnce(&Shape) -> Result<usize, MistakeKind>,
    ) -> Result<Classes, Refusal> {
        let (shape, given) = (self.shape_of(x)?, self.shape_of(classes)?);
        let axis = axis(&shape)?;
        let others = shape.dims().iter().enumerate().filter(|&(a, _)| a != axis);
        if given != others.map(|(_, &dim)| dim).collect() {
            return Err(MistakeKind::Classes { classes: given, shape, axis }.into());
        }
        let (size, rank, count) = (shape[axis], shape.rank(), given.elements());
        Ok(Classes { axis, size, rank, count })
    }

    /// The shape that both have.
    fn equal_shapes<T: Float>(&self, x: BufferId<T>, y: BufferId<T>) -> Result<Shape, Refusal> {
        let (a, b) = (self.shape_of(x)?, self.shape_of(y)?);
        if a == b { Ok(a) } else { Err(MistakeKind::UnequalShapes(a, b).into()) }
    }
}
