//! The rows of inputs, found in other values.

use slotmap::SecondaryMap;

use super::reasons::RowsReason;
use crate::base::shape::Shape;
use crate::graph::NodeId;

/// The axis that has the rows. Element e along it is of row (e / `inner`) mod the number of rows: a reshape may merge
/// the axis of rows with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowAxis {
    pub axis: usize,
    pub inner: usize,
}

/// A reduction over rows whose results for parts of them can be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowReduction {
    Sum,
    Mean,
    Max,
    Min,
}

/// The way in which a value depends on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowTrace {
    /// It depends on none.
    Fixed,
    /// Each row of it depends on the same row of the inputs alone.
    Each(RowAxis),
    /// It is reduced over all rows by the node.
    Reduced(RowReduction, NodeId),
}

pub(crate) type Traces = SecondaryMap<NodeId, RowTrace>;

/// A node that mixes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mixing {
    /// The node computes a row from others, or from its position.
    Rows { node: NodeId, reason: RowsReason },
    /// The node reads a value without rows, which has an element for each recorded row along `axis`.
    Long { node: NodeId, operand: NodeId, axis: usize },
}

/// The reason why a node has no trace, so far.
pub(super) enum Untraced {
    Mixes(Mixing),
    /// This operand does not depend on rows, but would have to be as long as there are rows.
    Long(NodeId, RowAxis),
}

impl RowAxis {
    /// The axis of an input that has its rows, one after another in memory: the first whose size is not 1, as for a state
    /// `[1, rows, width]` of a recurrent layer.
    pub fn of_input(shape: &Shape) -> Self {
        Self { axis: shape.dims().iter().position(|&dim| dim != 1).unwrap_or(0), inner: 1 }
    }

    /// Elements from one row to the next, in row-major order.
    pub fn stride(self, shape: &Shape) -> usize {
        shape.dims()[self.axis + 1..].iter().fold(self.inner, |stride, &dim| stride * dim)
    }

    /// The axis that has the rows after `from` was reshaped to `to`, if one has them whole.
    pub(super) fn reshaped(self, from: &Shape, to: &Shape, rows: usize) -> Option<Self> {
        let before = ..=self.axis;
        if to.dims().get(before) == from.dims().get(before) {
            return Some(self);
        }
        let stride = self.stride(from);
        let mut after = 1;
        for (axis, &dim) in to.dims().iter().enumerate().rev() {
            if after == 0 || dim == 0 {
                return None;
            }
            let inner = stride / after;
            if stride.is_multiple_of(after) && inner > 0 && dim.is_multiple_of(inner * rows) {
                return Some(Self { axis, inner });
            }
            after *= dim;
        }
        None
    }
}
