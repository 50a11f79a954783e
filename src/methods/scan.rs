//! Running combinations along an axis.

use super::axes::resolve;
use crate::base::dtype::{Element, Numeric};
use crate::batch::{GpuCommandBatch, Made, Operand, Tensor};
use crate::ops::{Op, Scan};

operations! {
    /// Scans along `axis`, which may count from the last (−1): each element of the result combines those up to
    /// it, itself included. Backwards is a [`flip`](Self::flip) before and one after.
    ///
    /// Floats are combined in `f32` in blocks, on the CPU in `f64`: in another order than one by one, with an
    /// error that is no larger, and the same in each run on one device.
    "scan";

    /// The running sum. Integers wrap.
    fn cumsum<T: Numeric>(x: T; axis: isize) -> Tensor<'b, T> = cumsum;
    /// The running product. Integers wrap.
    fn cumprod<T: Numeric>(x: T; axis: isize) -> Tensor<'b, T> = cumprod;
    /// The greatest element so far; NaN from the first NaN on.
    fn cummax<T: Numeric>(x: T; axis: isize) -> Tensor<'b, T> = cummax;
    /// The least element so far; NaN from the first NaN on.
    fn cummin<T: Numeric>(x: T; axis: isize) -> Tensor<'b, T> = cummin;
}

fn cumsum<T: Numeric>(x: Tensor<'_, T>, axis: isize) -> Made<'_, T> {
    scan(Scan::Sum, x, axis)
}

fn cumprod<T: Numeric>(x: Tensor<'_, T>, axis: isize) -> Made<'_, T> {
    scan(Scan::Prod, x, axis)
}

fn cummax<T: Numeric>(x: Tensor<'_, T>, axis: isize) -> Made<'_, T> {
    scan(Scan::Max, x, axis)
}

fn cummin<T: Numeric>(x: Tensor<'_, T>, axis: isize) -> Made<'_, T> {
    scan(Scan::Min, x, axis)
}

fn scan<T: Numeric>(op: Scan, x: Tensor<'_, T>, axis: isize) -> Made<'_, T> {
    let axis = resolve(axis, &x.known_shape()?)?;
    Ok(x.apply(Op::Scan { op, axis }))
}
