//! Tensors of no data: one value everywhere, ranges, and random numbers.

pub(super) mod random;

use crate::base::dtype::{Element, Numeric, Scalar};
use crate::base::shape::Shape;
use crate::batch::{GpuCommandBatch, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::ops::{Op, check_size};

creations! {
    /// Creation. Kernels that read the created values compute them in place.
    "creation", b;

    /// A tensor of `shape` with `value` in each element. A shape of too many elements is a mistake.
    #[doc(alias = "zeros")]
    #[doc(alias = "ones")]
    fn full<T: Element>(shape: impl Into<Shape>, value: T) -> Tensor<'b, T> = full(b, shape, value),
        ALL, AFTER, EXACT, "One value everywhere.";
    /// start, start + step, … up to but without `stop`: ⌈(stop − start) / step⌉ elements. It is a
    /// mistake if the step is 0 or not finite, or if there were 2³¹ elements or more; a step away from `stop` gives no elements.
    fn arange<T: Numeric>(start: T, stop: T, step: T) -> Tensor<'b, T> = arange(b, start, stop, step),
        NUMERIC, AFTER, EXACT, "start, start + step, … before stop.";
}

fn full<T: Element>(b: &GpuCommandBatch, shape: impl Into<Shape>, value: T) -> TensorResult<'_, T> {
    let shape = shape.into();
    check_size(&shape)?;
    Ok(b.source(Op::Full(value.scalar()), shape))
}

fn arange<T: Numeric>(b: &GpuCommandBatch, start: T, stop: T, step: T) -> TensorResult<'_, T> {
    let (start, stop, step) = (start.scalar(), stop.scalar(), step.scalar());
    let count = ((stop.value() - start.value()) / step.value()).ceil();
    let leads = step.value() != 0.0 && step.value().is_finite() && !count.is_nan();
    // Coordinates are counted in 31 bits.
    if !leads || count > f64::from(i32::MAX) {
        let [start, stop, step] = [start, stop, step].map(|scalar: Scalar| scalar.to_string());
        return Err(MistakeKind::Arange { start, stop, step }.into());
    }
    Ok(b.source(Op::Arange { start, step }, (count.max(0.0) as usize).into()))
}
