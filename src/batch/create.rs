//! Tensors of no data: one value everywhere, and ranges.

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{Element, Numeric, Scalar};
use crate::base::shape::Shape;
use crate::error::MistakeKind;
use crate::ops::{Op, check_size};

/// Creation. Kernels that read what is made compute it in place.
impl GpuCommandBatch {
    /// One value everywhere.
    #[track_caller]
    pub fn full<T: Element>(&mut self, shape: impl Into<Shape>, value: T) -> BufferId<T> {
        let shape = shape.into();
        match check_size(&shape) {
            Ok(()) => self.source(Op::Full(value.scalar()), T::DTYPE, shape),
            Err(what) => self.mistake("full", what),
        }
    }

    /// start, start + step, … up to but without `stop`: ⌈(stop − start) / step⌉ elements. It is a
    /// mistake if the step is 0 or not finite; a step away from `stop` gives no elements.
    #[track_caller]
    pub fn arange<T: Numeric>(&mut self, start: T, stop: T, step: T) -> BufferId<T> {
        let (start, stop, step) = (start.scalar(), stop.scalar(), step.scalar());
        let count = ((stop.value() - start.value()) / step.value()).ceil();
        let leads = step.value() != 0.0 && step.value().is_finite() && !count.is_nan();
        // Coordinates are counted in 31 bits.
        if !leads || count > f64::from(i32::MAX) {
            let text = |scalar: Scalar| scalar.to_string();
            let (start, stop, step) = (text(start), text(stop), text(step));
            return self.mistake("arange", MistakeKind::Arange { start, stop, step });
        }
        self.source(Op::Arange { start, step }, T::DTYPE, (count.max(0.0) as usize).into())
    }
}
