//! Running combinations along an axis.

use crate::base::dtype::{Element, Numeric};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::methods::arguments::axes::resolve;
use crate::ops::{Op, Scan, scan_table};

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident>, combine $combine:ident,
        ulp $ulp:literal, abs $abs:literal;)*) => {
        operations! {
            /// Scans along `axis`, which may count from the last (−1): each element of the result combines those up to
            /// it, itself included. Backwards is a [`flip`](Self::flip) before and one after.
            ///
            /// Floats are combined in `f32` in blocks, on the CPU in `f64`: in another order than one by one, with an
            /// error that is no larger, and the same in each run on one device.
            "scan";
            $($(#[doc = $doc])*
            fn $name<T: $bound>(x: T; axis: isize) -> Tensor<'b, T> = scan(Scan::$op, x, axis);)*
        }
    };
}
scan_table!(scans);

fn scan<T: Numeric>(op: Scan, x: Tensor<'_, T>, axis: isize) -> TensorResult<'_, T> {
    let axis = resolve(axis, &x.known_shape()?)?;
    Ok(x.apply(Op::Scan { op, axis }))
}
