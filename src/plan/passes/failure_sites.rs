//! Operations that can fail on the data: each is a *site*, numbered in the order recorded. A kernel tells the run's
//! failures the site and the element.
//!
//! If an output depends on such an operation, the run computes all of its elements, wherever it is fused. The run
//! computes it at no other points. Kernels that do not map evaluate more points than there are elements, or fewer. So
//! the operation is fused only into kernels that map. The path from it to the kernel's result must reach each element
//! and nothing else.

use super::ir::{Ir, Ix};
use super::path::Path;
use super::reads;
use crate::base::dtype::DType;
use crate::base::shape::View;
use crate::graph::NodeId;
use crate::ops::{Elementwise, Op};

/// The operations that can fail.
pub(crate) struct Sites {
    /// The number of each node.
    numbers: Vec<Option<u32>>,
    pub nodes: Vec<NodeId>,
}

impl Sites {
    pub fn of(ir: &Ir) -> Self {
        let mut sites = Self { numbers: vec![None; ir.nodes.len()], nodes: Vec::new() };
        for ix in (0..ir.nodes.len()).filter(|&ix| can_fail(ir, ix)) {
            sites.numbers[ix] = Some(sites.nodes.len() as u32);
            sites.nodes.push(ir.nodes[ix].node);
        }
        sites
    }

    /// The number of the node, if it can fail.
    pub fn get(&self, ix: Ix) -> Option<u32> {
        self.numbers[ix]
    }
}

/// True if all of the node's elements are reached by `path`, which leads from it, and nothing else is.
pub(crate) fn reaches_all(ir: &Ir, ix: Ix, path: &Path) -> bool {
    let shape = &ir.nodes[ix].ty.shape;
    path.view(shape).is_some_and(|view| view.covers(shape.elements()))
}

/// True if an element of the node can fail.
fn can_fail(ir: &Ir, ix: Ix) -> bool {
    let node = &ir.nodes[ix];
    match node.op {
        Op::Gather { .. } | Op::TakeAlong { .. } | Op::InRange { .. } => true,
        Op::Elementwise(Elementwise::Div | Elementwise::Rem, _) => {
            let integers = matches!(node.ty.dtype, DType::I32 | DType::U32);
            let by = &ir.nodes[node.inputs[1]].op;
            integers && !matches!(by, Op::Full(by) if by.value() != 0.0)
        }
        _ => false,
    }
}

/// The map from a point at the end of `path`, which leads from the node `ix`, to the position that fails there: an
/// index among the indices, else the node's own element.
pub(crate) fn failing_position(ir: &Ir, ix: Ix, path: &Path) -> Option<View> {
    let node = &ir.nodes[ix];
    if reads::lookup_axis(&node.op).is_none() {
        return path.carried(View::contiguous(&node.ty.shape));
    }
    let own = &ir.nodes[node.inputs[1]].ty.shape;
    let to_result = reads::index_path(node, &Path::start(own));
    path.carried(to_result.carried(View::contiguous(own))?)
}
