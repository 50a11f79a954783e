//! Losses over classes, and how many are right.

use super::axes::resolve;
use super::loss::LossReduction;
use super::{Axes, BufferId, GpuCommandBatch, Refusal};
use crate::base::dtype::{Float, Index, Scalar};
use crate::base::shape::Shape;
use crate::error::MistakeKind;
use crate::ops::Op;

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
    /// A factor for each class, `[classes]`. A mean over elements with a class is then divided by the sum of the factors
    /// of their classes.
    pub weight: Option<BufferId<f32>>,
    /// What becomes of the losses of the elements.
    pub reduction: LossReduction,
}

/// Where the classes are.
struct Classes {
    axis: usize,
    /// How many there are.
    size: usize,
    /// Of the elements that have a class each.
    shape: Shape,
    /// The factor of each class.
    weight: Option<BufferId<f32>>,
}

/// Losses over classes. They are computed in `f32` and rounded once, if at all. A class that there is not, and that is
/// not ignored, is a [`Fault`](crate::Fault).
impl GpuCommandBatch {
    /// −log softmax(`logits`) along the axis of classes, at the class that `classes` names for each of the other
    /// elements: the shape of `classes` is that of `logits` without that axis.
    #[track_caller]
    pub fn cross_entropy<T: Float, I: Index>(
        &mut self,
        logits: BufferId<T>,
        classes: BufferId<I>,
        how: ClassLoss,
    ) -> BufferId<T> {
        const NAME: &str = "cross_entropy";
        self.composed(NAME, |b| match b.class_loss(NAME, logits, classes, how, true) {
            Ok(loss) => loss,
            Err(what) => b.refused(NAME, what),
        })
    }

    /// As [`cross_entropy`](Self::cross_entropy), of `log_probabilities` instead of logits.
    #[track_caller]
    pub fn nll_loss<T: Float, I: Index>(
        &mut self,
        log_probabilities: BufferId<T>,
        classes: BufferId<I>,
        how: ClassLoss,
    ) -> BufferId<T> {
        const NAME: &str = "nll_loss";
        self.composed(NAME, |b| match b.class_loss(NAME, log_probabilities, classes, how, false) {
            Ok(loss) => loss,
            Err(what) => b.refused(NAME, what),
        })
    }

    /// −Σ p·log softmax(`logits`) along the axis of classes, where p are `probabilities` of the shape of `logits` with
    /// [`smoothing`](ClassLoss::smoothing) applied. Its [`ignore`](ClassLoss::ignore) has no meaning here, and a mean
    /// is over the number of elements, whatever the [weights](ClassLoss::weight).
    #[track_caller]
    pub fn cross_entropy_with<T: Float>(
        &mut self,
        logits: BufferId<T>,
        probabilities: BufferId<T>,
        how: ClassLoss,
    ) -> BufferId<T> {
        self.composed("cross_entropy_with", |b| match b.expected_loss(logits, probabilities, how) {
            Ok(loss) => loss,
            Err(what) => b.refused("cross_entropy_with", what),
        })
    }

    /// The share of elements whose greatest logit along `axis` is that of the class that `classes` names, a scalar.
    /// The shape of `classes` is that of `logits` without that axis. NaN over no elements. None is
    /// [ignored](ClassLoss::ignore).
    #[track_caller]
    pub fn accuracy<T: Float, I: Index>(
        &mut self,
        logits: BufferId<T>,
        classes: BufferId<I>,
        axis: isize,
    ) -> BufferId<f32> {
        const NAME: &str = "accuracy";
        let how = ClassLoss { axis: Some(axis), ..ClassLoss::default() };
        self.composed(NAME, |b| {
            let at = match b.classes_of(logits, classes, &how) {
                Ok(at) => at,
                Err(what) => return b.refused(NAME, what),
            };
            let best = b.argmax(logits, at.axis as isize);
            let classes = b.known_classes(NAME, classes, &at, None);
            let classes = b.cast::<I, u32>(classes);
            let hits = b.eq(best, classes);
            let hits = b.cast::<bool, f32>(hits);
            b.mean_of(hits, at.shape.elements())
        })
    }

    /// −log p of each element's class, where p is softmax(x), or eˣ where x are log-probabilities already. x is read
    /// once for log Σ eˣ, and once more for smoothing; the x of the classes are looked up.
    fn class_loss<T: Float, I: Index>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        classes: BufferId<I>,
        how: ClassLoss,
        logits: bool,
    ) -> Result<BufferId<T>, Refusal> {
        let at = self.classes_of(x, classes, &how)?;
        let ignored = how.ignore.and_then(index::<I>);
        let known = self.known_classes(name, classes, &at, ignored);
        let own = self.unsqueeze(known, at.axis as isize);
        let own = [self.check(x), self.check(own)];
        let own = self.record::<T>(Op::TakeAlong { name, axis: at.axis }, &own);
        let own = self.cast::<T, f32>(own);
        let total = logits.then(|| {
            let all = self.cast::<T, f32>(x);
            self.logsumexp(all, along(at.axis))
        });
        let loss = self.surprise(own, total);
        let mut loss = self.reshape(loss, &at.shape);
        let weight = at.weight.map(|weight| {
            let ids = [self.check(weight), self.check(known)];
            self.record::<f32>(Op::Gather { name, axis: 0 }, &ids)
        });
        if let Some(weight) = weight {
            loss = self.mul(loss, weight);
        }
        if how.smoothing > 0.0 {
            let all = self.cast::<T, f32>(x);
            let surprise = self.surprise(all, total);
            let surprise = self.weighted(surprise, &at);
            let even = self.sum(surprise, at.axis as isize);
            let even = self.scale(even, how.smoothing / at.size as f32);
            loss = self.scale(loss, 1.0 - how.smoothing);
            loss = self.add(loss, even);
        }
        let loss = self.class_reduced(loss, weight, (classes, ignored), how.reduction);
        Ok(self.cast(loss))
    }

    /// The losses of elements, or their sum or mean, without those whose class is ignored.
    fn class_reduced<I: Index>(
        &mut self,
        loss: BufferId<f32>,
        weight: Option<BufferId<f32>>,
        (classes, ignored): (BufferId<I>, Option<Scalar>),
        reduction: LossReduction,
    ) -> BufferId<f32> {
        let count = self.shape_of(classes).map_or(0, |shape| shape.elements());
        let Some(ignored) = ignored else {
            return match (reduction, weight) {
                (LossReduction::Mean, Some(weight)) => self.ratio_of_sums(loss, weight),
                _ => self.reduced(loss, count, reduction),
            };
        };
        let ignored = self.source::<I>(Op::Full(ignored), I::DTYPE, Shape::default());
        let counted = self.ne(classes, ignored);
        let zero = self.full([], 0.0_f32);
        let loss = self.select(counted, loss, zero);
        if reduction != LossReduction::Mean {
            return self.reduced(loss, count, reduction);
        }
        let weight = match weight {
            Some(weight) => self.select(counted, weight, zero),
            None => self.cast(counted),
        };
        self.ratio_of_sums(loss, weight)
    }

    /// The sum of all of x over the sum of all of y.
    fn ratio_of_sums(&mut self, x: BufferId<f32>, y: BufferId<f32>) -> BufferId<f32> {
        let (x, y) = (self.sum(x, ..), self.sum(y, ..));
        self.div(x, y)
    }

    /// −Σ p·log softmax(x).
    fn expected_loss<T: Float>(
        &mut self,
        x: BufferId<T>,
        p: BufferId<T>,
        how: ClassLoss,
    ) -> Result<BufferId<T>, Refusal> {
        let shape = self.equal_shapes(x, p)?;
        let at = self.classes_in(&shape, &how)?;
        let (x, mut p) = (self.cast::<T, f32>(x), self.cast::<T, f32>(p));
        if how.smoothing > 0.0 {
            p = self.scale(p, 1.0 - how.smoothing);
            p = self.add_scalar(p, how.smoothing / at.size as f32);
        }
        let total = self.logsumexp(x, along(at.axis));
        let surprise = self.surprise(x, Some(total));
        let losses = self.mul(p, surprise);
        let losses = self.weighted(losses, &at);
        let loss = match how.reduction {
            LossReduction::None => self.sum(losses, at.axis as isize),
            reduction => self.reduced(losses, at.shape.elements(), reduction),
        };
        Ok(self.cast(loss))
    }

    /// −log p, from log Σ eˣ and x, or from x = log p.
    fn surprise(&mut self, x: BufferId<f32>, total: Option<BufferId<f32>>) -> BufferId<f32> {
        match total {
            Some(total) => self.sub(total, x),
            None => self.neg(x),
        }
    }

    /// x times the factors of the classes along its axis, if there are any.
    fn weighted(&mut self, x: BufferId<f32>, at: &Classes) -> BufferId<f32> {
        let Some(weight) = at.weight else { return x };
        let after = std::iter::repeat_n(1, at.shape.rank() - at.axis);
        let column = std::iter::once(at.size).chain(after).collect::<Shape>();
        let weight = self.reshape(weight, column);
        self.mul(x, weight)
    }

    /// The classes as they are, and 0 for those that are ignored; any other that there is not is a fault of `name`.
    fn known_classes<I: Index>(
        &mut self,
        name: &'static str,
        classes: BufferId<I>,
        at: &Classes,
        ignored: Option<Scalar>,
    ) -> BufferId<I> {
        let ids = [self.check(classes)];
        self.record(Op::InRange { name, axis: None, size: at.size, ignored }, &ids)
    }

    /// Where the classes of `x` are, where `classes` has its shape without their axis.
    fn classes_of<T: Float, I: Index>(
        &self,
        x: BufferId<T>,
        classes: BufferId<I>,
        how: &ClassLoss,
    ) -> Result<Classes, Refusal> {
        let (shape, given) = (self.shape_of(x)?, self.shape_of(classes)?);
        let at = self.classes_in(&shape, how)?;
        if given != at.shape {
            return Err(MistakeKind::Classes { classes: given, shape, axis: at.axis }.into());
        }
        Ok(at)
    }

    /// Where the classes of a tensor of `shape` are.
    fn classes_in(&self, shape: &Shape, how: &ClassLoss) -> Result<Classes, Refusal> {
        if !(0.0..=1.0).contains(&how.smoothing) {
            let given = how.smoothing.to_string();
            return Err(MistakeKind::Parameter { what: "smoothing", must: "0 to 1", given }.into());
        }
        let axis = resolve(how.axis.unwrap_or(if shape.rank() > 1 { 1 } else { 0 }), shape)?;
        let others = shape.dims().iter().enumerate().filter(|&(a, _)| a != axis);
        let others: Shape = others.map(|(_, &dim)| dim).collect();
        let given = how.weight.map(|weight| self.shape_of(weight)).transpose()?;
        if let Some(given) = given.filter(|given| given.dims() != [shape[axis]]) {
            let wanted = "[classes]";
            return Err(MistakeKind::Layout { what: "weight", wanted, shape: given }.into());
        }
        Ok(Classes { axis, size: shape[axis], shape: others, weight: how.weight })
    }
}

/// The axis, which stays with size 1.
fn along(axis: usize) -> Axes {
    Axes::from(axis as isize).keep_dims()
}

/// A class as an index, where there is such an index.
fn index<I: Index>(class: i64) -> Option<Scalar> {
    let index = Scalar::new(I::DTYPE, class as f64);
    (index.value() == class as f64).then_some(index)
}
