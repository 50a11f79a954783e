//! The pass *kept copies*: a value that outlives a run has a buffer of its own.

use smallvec::smallvec;

use super::ir::{Ir, IrNode};
use crate::base::shape::Move;
use crate::ops::Op;

/// Puts a copy in place of each source that is kept, and of each value that is kept twice.
pub(crate) fn copy_kept(mut ir: Ir) -> Ir {
    for at in 0..ir.keeps.len() {
        let ix = ir.keeps[at];
        let node = &ir.nodes[ix];
        if node.op.is_source() || ir.keeps[..at].contains(&ix) {
            let to = Move::Reshape(node.ty.shape.clone());
            let op = Op::Move { name: "copy", to };
            ir.keeps[at] = ir.push(IrNode { op, inputs: smallvec![ix], ..node.clone() });
        }
    }
    ir
}
