//! Running combinations along an axis.

use super::axes::resolve;
use crate::base::dtype::{Element, Numeric};
use crate::batch::{GpuCommandBatch, Made, Operand, Tensor};
use crate::ops::{Op, Scan, scan_table};

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident>, combine $combine:ident,
        ulp $ulp:literal, abs $abs:literal;)*) => {
        /// Scans along `axis`, which may count from the last (−1): each element of the result combines those up to
        /// it, itself included. Backwards is a [`flip`](Self::flip) before and one after.
        ///
        /// Floats are combined in `f32` in blocks, on the CPU in `f64`: in another order than one by one, with an
        /// error that is no larger, and the same in each run on one device.
        impl GpuCommandBatch {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name<T: $bound>(&self, x: impl Operand<T>, axis: isize) -> Tensor<'_, T> {
                self.composed(stringify!($name), || scan(Scan::$op, self.operand(x), axis))
            })*
        }

        /// Scans along `axis`, which may count from the last (−1).
        impl<'b, T: Element> Tensor<'b, T> {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name(self, axis: isize) -> Self
            where
                T: $bound,
            {
                self.batch().$name(self, axis)
            })*
        }
    };
}
scan_table!(scans);

fn scan<T: Numeric>(op: Scan, x: Tensor<'_, T>, axis: isize) -> Made<'_, T> {
    let axis = resolve(axis, &x.known_shape()?)?;
    Ok(x.apply(Op::Scan { op, axis }))
}
