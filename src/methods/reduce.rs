//! Reductions.

use crate::base::dtype::{Element, Float, Logical, Numeric};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::Axes;
use crate::ops::{Op, Reduction, reduce_table};

macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident> -> $out:ty, combine $combine:ident,
        empty $empty:expr, ulp $ulp:literal, abs $abs:literal,
        of ($x:ident) $before:expr, then ($($given:ident),+) $after:expr;)*) => {
        operations! {
            /// Reductions over any axes: one (`1`), several (`[0, -1]`) or all (`..`). The axes vanish from
            /// the shape, or stay with size 1 with [`Axes::keep_dims`].
            "reduce";
            $($(#[doc = $doc])*
            fn $name<T: $bound>(x: T; axes: impl Into<Axes>) -> Tensor<'b, $out>
                = reduce(Reduction::$op, x, &axes.into());)*
        }
    };
}
reduce_table!(reductions);

fn reduce<'b, T: Element, U: Element>(
    op: Reduction,
    x: Tensor<'b, T>,
    axes: &Axes,
) -> TensorResult<'b, U> {
    let list = axes.resolve(&x.known_shape()?)?;
    Ok(x.apply(Op::Reduce { op, axes: list, keep: axes.keep }))
}

operations! {
    /// Inner products.
    "reduce";

    /// The inner product Σ xᵢ·yᵢ of two vectors of equal length, a scalar of shape `[]`.
    fn dot<T: Numeric>(x: T, y: T) -> Tensor<'b, T> = dot(x, y),
        NUMERIC, AROUND, SUMMED, "The inner product of two vectors.";
}

fn dot<'b, T: Numeric>(x: Tensor<'b, T>, y: Tensor<'b, T>) -> TensorResult<'b, T> {
    let (a, b) = (x.known_shape()?, y.known_shape()?);
    if a.rank() != 1 || a != b {
        return Err(MistakeKind::Dot(a, b).into());
    }
    Ok((x * y).sum(..))
}
