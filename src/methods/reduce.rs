//! Reductions.

use crate::base::dtype::{Element, Float, Logical, Numeric};
use crate::batch::{GpuCommandBatch, Made, Operand, Tensor};
use crate::error::MistakeKind;
use crate::methods::Axes;
use crate::ops::{Op, Reduction, reduce_table};

macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident> -> $out:ty, combine $combine:ident,
        empty $empty:expr, ulp $ulp:literal, abs $abs:literal,
        of ($x:ident) $before:expr, then ($($given:ident),+) $after:expr;)*) => {
        /// Reductions over any axes: one (`1`), several (`[0, -1]`) or all (`..`). The axes vanish from
        /// the shape, or stay with size 1 with [`Axes::keep_dims`].
        impl GpuCommandBatch {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name<T: $bound>(
                &self,
                x: impl Operand<T>,
                axes: impl Into<Axes>,
            ) -> Tensor<'_, $out> {
                self.composed(stringify!($name), || {
                    reduce(Reduction::$op, self.operand(x), &axes.into())
                })
            })*
        }

        /// Reductions over any axes: one (`1`), several (`[0, -1]`) or all (`..`). The axes vanish from
        /// the shape, or stay with size 1 with [`Axes::keep_dims`].
        impl<'b, T: Element> Tensor<'b, T> {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name(self, axes: impl Into<Axes>) -> Tensor<'b, $out>
            where
                T: $bound,
            {
                self.batch().$name(self, axes)
            })*
        }
    };
}
reduce_table!(reductions);

fn reduce<'b, T: Element, U: Element>(op: Reduction, x: Tensor<'b, T>, axes: &Axes) -> Made<'b, U> {
    let list = axes.resolve(&x.known_shape()?)?;
    Ok(x.apply(Op::Reduce { op, axes: list, keep: axes.keep }))
}

operations! {
    /// Inner products.
    "reduce";

    /// The inner product Σ xᵢ·yᵢ of two vectors of equal length, a scalar of shape `[]`.
    fn dot<T: Numeric>(x: T, y: T) -> Tensor<'b, T> = dot,
        NUMERIC, AROUND, SUMMED, "The inner product of two vectors.";
}

fn dot<'b, T: Numeric>(x: Tensor<'b, T>, y: Tensor<'b, T>) -> Made<'b, T> {
    let (a, b) = (x.known_shape()?, y.known_shape()?);
    if a.rank() != 1 || a != b {
        return Err(MistakeKind::Dot(a, b).into());
    }
    Ok((x * y).sum(..))
}
