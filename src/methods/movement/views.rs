//! Views that several families are made of.

use std::ops;

use crate::base::dtype::Element;
use crate::base::shape::{Move, Shape, Window};
use crate::batch::Tensor;
use crate::ops::Op;

/// The windows along `axis`, which becomes two axes: windows, and their elements. `name` is the method of the user's call.
pub(in crate::methods) fn windows<'b, T: Element>(
    name: &'static str,
    x: Tensor<'b, T>,
    axis: usize,
    window: Window,
) -> Tensor<'b, T> {
    moved(name, x, Move::Window { axis, window })
}

/// `x` through the view `to`, recorded as the operation `name`.
pub(in crate::methods) fn moved<'b, T: Element>(
    name: &'static str,
    x: Tensor<'b, T>,
    to: Move,
) -> Tensor<'b, T> {
    x.apply(Op::Move { name, to })
}

/// The elements `range` along `axis`, and all along the others.
pub(in crate::methods) fn along<'b, T: Element>(
    x: Tensor<'b, T>,
    shape: &Shape,
    axis: usize,
    range: ops::Range<usize>,
) -> Tensor<'b, T> {
    let ranges = shape.dims().iter().enumerate();
    let ranges = ranges.map(|(a, &dim)| if a == axis { range.clone() } else { 0..dim });
    x.slice(ranges)
}
