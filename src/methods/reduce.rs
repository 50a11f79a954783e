//! Reductions.

use crate::base::dtype::{Element, Float, Logical, Numeric};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::Axes;
use crate::ops::{Op, Reduction, reduce_table};

macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $(#[doc(alias = $alias:literal)])* $name:ident $op:ident<$bound:ident> -> $out:ty, combine $combine:ident,
        empty $empty:expr, ulp $ulp:literal, abs $abs:literal,
        of ($x:ident) $before:expr, then ($($given:ident),+) $after:expr;)*) => {
        operations! {
            /// Reductions over any axes: one (`1`), several (`[0, -1]`) or all (`..`). The axes vanish from
            /// the shape, or stay with size 1 with [`Axes::keep_dims`].
            "reduce";
            example {
                ///
                /// ```
                /// # pollster::block_on(async {
                /// # use onetrip::{Axes, Device, GpuCommandBatch};
                /// let batch = GpuCommandBatch::new(&Device::cpu());
                /// let x = batch.upload_shaped(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
                /// let columns = x.sum(Axes::from(0).keep_dims()); // [1, 2]
                /// assert_eq!(columns.shape().unwrap().dims(), [1, 2]);
                /// let (most, least) = (x.argmax(0), x.argmin(0));
                /// let (any, all) = (x.gt(2.0).any(0), x.gt(2.0).all(..));
                /// let results = [
                ///     (x.sum(0), [4.0, 6.0]),
                ///     (x.mean(0), [2.0, 3.0]),
                ///     (x.prod(0), [3.0, 8.0]),
                ///     (x.amax(0), [3.0, 4.0]),
                ///     (x.amin(0), [1.0, 2.0]),
                ///     (x.logsumexp(0), [3.1269, 4.1269]),
                ///     (x.norm(0), [3.1623, 4.4721]),
                /// ];
                /// batch.execute().await?;
                /// for (result, expected) in results {
                ///     let values = batch.read(result).await?;
                ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
                /// }
                /// assert_eq!(batch.read(most).await?, [1, 1]);
                /// assert_eq!(batch.read(least).await?, [0, 0]);
                /// assert_eq!(batch.read(any).await?, [true, true]);
                /// assert_eq!(batch.read(all).await?, [false]);
                /// # Ok::<_, onetrip::Error>(()) }).unwrap();
                /// ```
            }
            $($(#[doc = $doc])* $(#[doc(alias = $alias)])*
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
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload(&[1.0_f32, 2.0, 3.0]);
        /// let squared = x.dot(x);
        /// batch.execute().await?;
        /// assert_eq!(batch.read(squared).await?, [14.0]);
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

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
