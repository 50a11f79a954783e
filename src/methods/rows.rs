//! Operations on rows: softmax and norms along one axis.

use super::axes::resolve;
use crate::base::dtype::{DType, Element, Float, Scalar};
use crate::batch::{GpuCommandBatch, Made, Operand, Tensor};
use crate::error::MistakeKind;
use crate::ops::{Normalization, Op, row_table};

macro_rules! rows {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident $(($epsilon:ident: $scalar:ty))?, family $family:literal,
        words $words:literal, flops $flops:literal;)*) => {
        /// Softmax and norms along one axis, which may count from the last (−1).
        impl GpuCommandBatch {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name<T: Float>(
                &self,
                x: impl Operand<T>,
                axis: isize
                $(, $epsilon: f32)?
            ) -> Tensor<'_, T> {
                self.composed(stringify!($name), || {
                    $(let $epsilon = check_epsilon($epsilon)?;)?
                    normalized(Normalization::$op $(($epsilon))?, self.operand(x), axis)
                })
            })*
        }

        /// Softmax and norms along one axis, which may count from the last (−1).
        impl<'b, T: Element> Tensor<'b, T> {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name(self, axis: isize $(, $epsilon: f32)?) -> Self
            where
                T: Float,
            {
                self.batch().$name(self, axis $(, $epsilon)?)
            })*
        }
    };
}
row_table!(rows);

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
