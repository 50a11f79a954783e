//! Running combinations along an axis.

use crate::base::dtype::{Element, Numeric};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::methods::arguments::axes::resolve;
use crate::ops::{Op, Scan, scan_table};

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $(#[doc(alias = $alias:literal)])* $name:ident $op:ident<$bound:ident>, combine $combine:ident,
        ulp $ulp:literal, abs $abs:literal;)*) => {
        operations! {
            /// Scans along `axis`, which may count from the last (−1): each element of the result combines those up to
            /// it, itself included. Backwards is a [`flip`](Self::flip) before and one after.
            ///
            /// Floats are combined in `f32` in blocks, on the CPU in `f64`: in another order than one by one, with an
            /// error that is no larger, and the same in each run on one device.
            "scan";
            example {
                ///
                /// ```
                /// # pollster::block_on(async {
                /// # use onetrip::{Device, GpuCommandBatch};
                /// let batch = GpuCommandBatch::new(&Device::cpu());
                /// let x = batch.upload(&[2_i32, 3, 1]);
                /// let results = [
                ///     (x.cumsum(0), [2, 5, 6]),
                ///     (x.cumprod(0), [2, 6, 6]),
                ///     (x.cummax(0), [2, 3, 3]),
                ///     (x.cummin(0), [2, 2, 1]),
                /// ];
                /// batch.execute().await?;
                /// for (result, expected) in results {
                ///     let values = batch.read(result).await?;
                ///     assert_eq!(values, expected);
                /// }
                /// # Ok::<_, onetrip::Error>(()) }).unwrap();
                /// ```
            }
            $($(#[doc = $doc])* $(#[doc(alias = $alias)])*
            fn $name<T: $bound>(x: T; axis: isize) -> Tensor<'b, T> = scan(Scan::$op, x, axis);)*
        }
    };
}
scan_table!(scans);

fn scan<T: Numeric>(op: Scan, x: Tensor<'_, T>, axis: isize) -> TensorResult<'_, T> {
    let axis = resolve(axis, &x.known_shape()?)?;
    Ok(x.apply(Op::Scan { op, axis }))
}
