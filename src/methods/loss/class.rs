//! Losses over classes, and how many are right.

use super::{LossReduction, equal_shapes, reduced};
use crate::base::dtype::{Element, Float, Index, Scalar};
use crate::base::shape::Shape;
use crate::batch::{BufferId, GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::Axes;
use crate::methods::arguments::axes::resolve;
use crate::methods::arguments::checks::check_parameter;
use crate::ops::Op;
use crate::record::{Refusal, UserCall};

/// The options of a loss over classes. The default is PyTorch's, except that no class is ignored: PyTorch
/// ignores −100.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassLoss {
    /// The axis of the classes; `None` for axis 1, or 0 of a vector.
    pub axis: Option<isize>,
    /// A class whose elements count for nothing, neither in sums nor in means. It need not be a class that
    /// there is: PyTorch's default is −100.
    pub ignore: Option<i64>,
    /// The share of the target that is spread over all classes evenly, 0 to 1 (Szegedy et al., 2016).
    pub smoothing: f32,
    /// A factor for each class, `[classes]`. A mean over elements with a class is then divided by the sum of the
    /// factors of their classes.
    pub weight: Option<BufferId<f32>>,
    /// The reduction of the losses of the elements.
    pub reduction: LossReduction,
}

impl ClassLoss {
    /// The default with a factor for each class: a tensor, an id or a borrowed resident.
    #[track_caller]
    pub fn weighted(batch: &GpuCommandBatch, weight: impl Operand<f32>) -> Self {
        Self { weight: Some(batch.option("ClassLoss::weighted", weight)), ..Self::default() }
    }
}

/// The classes of a tensor.
struct Classes<'b> {
    axis: usize,
    /// The number of classes.
    size: usize,
    /// The shape of the elements that have a class each.
    shape: Shape,
    /// The factor of each class.
    weight: Option<Tensor<'b, f32>>,
}

operations! {
    /// Losses over classes. They are computed in `f32` and rounded once, if at all. A class number out of range is a
    /// [`Fault`](crate::Fault) unless it equals [`ignore`](ClassLoss::ignore).
    "loss";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{ClassLoss, Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let logits = batch.upload_shaped(&[1.0_f32, 3.0, 2.0, 0.0], [2, 2]);
        /// let classes = batch.upload(&[1_u32, 1]);
        /// let ids = batch.upload(&[1_i32, -100]);
        /// let shares = batch.upload_shaped(&[0.0_f32, 1.0, 0.0, 1.0], [2, 2]);
        /// let how = ClassLoss::default();
        /// let results = [
        ///     (logits.cross_entropy(classes, how), [1.1269]),
        ///     (logits.cross_entropy_with(shares, how), [1.1269]),
        ///     (logits.log_softmax(1).nll_loss(classes, how), [1.1269]),
        ///     (logits.cross_entropy(classes, ClassLoss::weighted(&batch, batch.upload(&[1.0_f32, 2.0]))), [1.1269]),
        ///     (logits.accuracy(classes, 1), [0.5]),
        ///     (logits.accuracy_with(ids, 1, -100), [1.0]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// −log softmax(`logits`) along the axis of classes, at the class that `classes` names for each of the other
    /// elements: the shape of `classes` is that of `logits` without that axis.
    fn cross_entropy<T: Float, I: Index>(logits: T, classes: I; how: ClassLoss) -> Tensor<'b, T> = class_loss(logits, classes, how, true),
        FLOAT, CLASSES, COMPOSED, "−log softmax at the classes that indices name.";
    /// −Σ p·log softmax(`logits`) along the axis of classes, where p are `probabilities` of the shape of `logits` with
    /// [`smoothing`](ClassLoss::smoothing) applied. Its [`ignore`](ClassLoss::ignore) has no meaning here, and a mean
    /// is over the number of elements, with any [weights](ClassLoss::weight).
    fn cross_entropy_with<T: Float>(logits: T, probabilities: T; how: ClassLoss) -> Tensor<'b, T> = cross_entropy_with(logits, probabilities, how),
        FLOAT, LAYER, COMPOSED, "−Σ p·log softmax for probabilities p.";
    /// As [`cross_entropy`](Self::cross_entropy), of `log_probabilities` instead of logits.
    fn nll_loss<T: Float, I: Index>(log_probabilities: T, classes: I; how: ClassLoss) -> Tensor<'b, T> = class_loss(log_probabilities, classes, how, false),
        FLOAT, CLASSES, COMPOSED, "−log p at the classes that indices name.";
    /// The share of elements whose greatest logit along `axis` is that of the class that `classes` names, a scalar.
    /// The shape of `classes` is that of `logits` without that axis. NaN over no elements.
    fn accuracy<T: Float, I: Index>(logits: T, classes: I; axis: isize) -> Tensor<'b, f32> = share_of_hits(logits, classes, axis, None),
        FLOAT, CLASSES, EXACT, "The share of elements whose greatest logit is that of their class.";
    /// As [`accuracy`](Self::accuracy) of the elements whose class is not `ignore`, which need not be a class that
    /// there is: PyTorch's −100, say. NaN where all are ignored.
    fn accuracy_with<T: Float, I: Index>(logits: T, classes: I; axis: isize, ignore: i64) -> Tensor<'b, f32> = share_of_hits(logits, classes, axis, index::<I>(ignore)),
        FLOAT, CLASSES, EXACT, "The share of elements of any class but one whose greatest logit is that of their class.";
}

/// −Σ p·log softmax(x).
fn cross_entropy_with<'b, T: Float>(
    x: Tensor<'b, T>,
    p: Tensor<'b, T>,
    how: ClassLoss,
) -> TensorResult<'b, T> {
    let shape = equal_shapes(x, p)?;
    let at = classes_in(x.batch(), &shape, &how)?;
    let (x, mut p) = (x.cast::<f32>(), p.cast::<f32>());
    if how.smoothing > 0.0 {
        p = p.scale(1.0 - how.smoothing).add_scalar(how.smoothing / at.size as f32);
    }
    let total = x.logsumexp(along(at.axis));
    let losses = weighted(p * (total - x), &at);
    let loss = match how.reduction {
        LossReduction::Sum => losses.sum(..),
        reduction => reduced(losses.sum(at.axis as isize), reduction),
    };
    Ok(loss.cast())
}

fn share_of_hits<'b, T: Float, I: Index>(
    logits: Tensor<'b, T>,
    classes: Tensor<'b, I>,
    axis: isize,
    ignored: Option<Scalar>,
) -> TensorResult<'b, f32> {
    let how = ClassLoss { axis: Some(axis), ..ClassLoss::default() };
    let at = classes_of(logits, classes, &how)?;
    let best = logits.argmax(at.axis as isize);
    let known = known_classes(classes, &at, ignored).cast::<u32>();
    let hits = best.eq(known).cast::<f32>();
    class_reduced(hits, None, (classes, ignored), LossReduction::Mean)
}

/// −log p of each element's class, where p is softmax(x), or eˣ where x are log-probabilities already. x is read
/// once for log Σ eˣ, and once more for smoothing; the x of the classes are looked up.
fn class_loss<'b, T: Float, I: Index>(
    x: Tensor<'b, T>,
    classes: Tensor<'b, I>,
    how: ClassLoss,
    logits: bool,
) -> TensorResult<'b, T> {
    let (b, name) = (x.batch(), UserCall::outer_name());
    let at = classes_of(x, classes, &how)?;
    let ignored = how.ignore.and_then(index::<I>);
    let known = known_classes(classes, &at, ignored);
    let own = known.unsqueeze(at.axis as isize);
    let own: Tensor<'b, T> =
        b.record(Op::TakeAlong { name, axis: at.axis }, &[x.value(), own.value()]);
    let own = own.cast::<f32>();
    let total = logits.then(|| x.cast::<f32>().logsumexp(along(at.axis)));
    // −log p, from log Σ eˣ and x, or from x = log p.
    let surprise = |x: Tensor<'b, f32>| total.map_or_else(|| -x, |total| total - x);
    let mut loss = surprise(own).reshape(&at.shape);
    let weight: Option<Tensor<'b, f32>> = at
        .weight
        .map(|weight| b.record(Op::Gather { name, axis: 0 }, &[weight.value(), known.value()]));
    if let Some(weight) = weight {
        loss = loss * weight;
    }
    if how.smoothing > 0.0 {
        let all = weighted(surprise(x.cast::<f32>()), &at);
        let even = all.sum(at.axis as isize).scale(how.smoothing / at.size as f32);
        loss = loss.scale(1.0 - how.smoothing) + even;
    }
    Ok(class_reduced(loss, weight, (classes, ignored), how.reduction)?.cast())
}

/// The losses of elements, or their sum or mean, without those whose class is ignored.
fn class_reduced<'b, I: Index>(
    loss: Tensor<'b, f32>,
    weight: Option<Tensor<'b, f32>>,
    (classes, ignored): (Tensor<'b, I>, Option<Scalar>),
    reduction: LossReduction,
) -> TensorResult<'b, f32> {
    let Some(ignored) = ignored else {
        return Ok(match (reduction, weight) {
            (LossReduction::Mean, Some(weight)) => loss.sum(..) / weight.sum(..),
            _ => reduced(loss, reduction),
        });
    };
    let ignored: Tensor<'b, I> = loss.batch().source(Op::Full(ignored), Shape::default());
    let counted = classes.ne(ignored);
    let zero = loss.batch().full([], 0.0_f32);
    let loss = counted.select(loss, zero);
    if reduction != LossReduction::Mean {
        return Ok(reduced(loss, reduction));
    }
    let weight = match weight {
        Some(weight) => counted.select(weight, zero),
        None => counted.cast(),
    };
    Ok(loss.sum(..) / weight.sum(..))
}

/// x times the factors of the classes along its axis, if there are any.
fn weighted<'b>(x: Tensor<'b, f32>, at: &Classes<'b>) -> Tensor<'b, f32> {
    let Some(weight) = at.weight else { return x };
    let after = std::iter::repeat_n(1, at.shape.rank() - at.axis);
    x * weight.reshape(std::iter::once(at.size).chain(after).collect::<Shape>())
}

/// The classes as they are, and 0 for those that are ignored; any other that there is not is a fault.
fn known_classes<'b, I: Index>(
    classes: Tensor<'b, I>,
    at: &Classes<'b>,
    ignored: Option<Scalar>,
) -> Tensor<'b, I> {
    classes.apply(Op::InRange { name: UserCall::outer_name(), axis: None, size: at.size, ignored })
}

/// The classes of `x`, checked against the shape of `classes`, which lacks their axis.
fn classes_of<'b, T: Float, I: Index>(
    x: Tensor<'b, T>,
    classes: Tensor<'b, I>,
    how: &ClassLoss,
) -> Result<Classes<'b>, Refusal> {
    let (shape, given) = (x.known_shape()?, classes.known_shape()?);
    let at = classes_in(x.batch(), &shape, how)?;
    if given != at.shape {
        return Err(MistakeKind::Classes { classes: given, shape, axis: at.axis }.into());
    }
    Ok(at)
}

/// The classes of a tensor of `shape`.
fn classes_in<'b>(
    b: &'b GpuCommandBatch,
    shape: &Shape,
    how: &ClassLoss,
) -> Result<Classes<'b>, Refusal> {
    let fits = (0.0..=1.0).contains(&how.smoothing);
    check_parameter("smoothing", fits, "0 to 1", &how.smoothing)?;
    let axis = resolve(how.axis.unwrap_or(if shape.rank() > 1 { 1 } else { 0 }), shape)?;
    let others = shape.dims().iter().enumerate().filter(|&(a, _)| a != axis);
    let others: Shape = others.map(|(_, &dim)| dim).collect();
    let weight = how.weight.map(|weight| b.operand(weight));
    let given = weight.map(Tensor::known_shape).transpose()?;
    if let Some(given) = given.filter(|given| given.dims() != [shape[axis]]) {
        let wanted = "[classes]";
        return Err(MistakeKind::Layout { what: "weight", wanted, shape: given }.into());
    }
    Ok(Classes { axis, size: shape[axis], shape: others, weight })
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
