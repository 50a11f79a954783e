//! Operations that read a table at computed indices: the way of the indices to the result, and where in the table's
//! memory the elements with index 0 lie.

use smallvec::smallvec;

use super::ir::{Ir, IrNode, Ix};
use super::path::{Path, Views};
use crate::base::shape::View;
use crate::ops::Op;

/// The axis of its table that a node looks up.
pub(crate) fn axis(op: &Op) -> Option<usize> {
    match op {
        Op::SearchSorted { .. } => Some(0),
        Op::Gather { axis, .. } | Op::TakeAlong { axis, .. } => Some(*axis),
        _ => None,
    }
}

/// The stored value behind the table of a node that has one, and the way from there.
pub(crate) fn table<'a>(views: &'a Views, node: &IrNode) -> Option<&'a (Ix, Path)> {
    axis(&node.op).map(|_| views.of(node.inputs[0]))
}

/// The path from indices at the end of `path` to the result of `node`.
pub(crate) fn index_path(node: &IrNode, path: &Path) -> Path {
    let shape = &node.ty.shape;
    match node.op {
        Op::Gather { axis, .. } => {
            let own = path.shape().dims();
            let after = shape.rank() - axis - own.len();
            let dims = own.iter().copied().chain(std::iter::repeat_n(1, after));
            path.reshaped(dims.collect()).broadcast(shape)
        }
        _ => path.broadcast(shape),
    }
}

/// The places of the elements of a look-up.
pub(crate) struct Elements {
    /// The map from the result to the element with index 0.
    pub first: View,
    /// The distance of an index from the one before.
    pub stride: i64,
    /// The number of elements along the axis.
    pub size: usize,
}

/// The places of the elements of the look-up `ix` in its table's memory.
pub(crate) fn elements(ir: &Ir, views: &Views, ix: Ix) -> Option<Elements> {
    let node = &ir.nodes[ix];
    let (axis, (base, path)) = (axis(&node.op)?, table(views, node)?);
    let table = path.view(&ir.nodes[*base].ty.shape)?;
    let shape = &node.ty.shape;
    let (stride, size) = (table.strides[axis], table.dims[axis]);
    let mut strides = table.strides.clone();
    match node.op {
        Op::Gather { .. } => {
            let more = shape.rank() + 1 - table.dims.len();
            strides.remove(axis);
            strides.insert_many(axis, std::iter::repeat_n(0, more));
        }
        Op::SearchSorted { .. } => strides = smallvec![0; shape.rank()],
        _ => {
            for (at, stride) in strides.iter_mut().enumerate() {
                if at == axis || table.dims[at] != shape[at] {
                    *stride = 0;
                }
            }
        }
    }
    Some(Elements {
        first: View { dims: shape.dims().into(), strides, offset: table.offset },
        stride,
        size,
    })
}
