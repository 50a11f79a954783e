//! The pass *sort pairs*: one kernel can make both results of a sort.

use super::ir::{Ir, Ix};
use crate::ops::Op;

/// Puts the two results of each sort next to each other.
pub(crate) fn join_pairs(mut ir: Ir) -> Ir {
    let count = ir.nodes.len();
    let mut order: Vec<Ix> = Vec::with_capacity(count);
    for ix in 0..count {
        let sorts = matches!(ir.nodes[ix].op, Op::Sort { .. });
        if sorts && order.contains(&ix) {
            continue;
        }
        order.push(ix);
        let mut later = ix + 1..if sorts { count } else { 0 };
        order.extend(later.find(|&later| ir.is_pair(ix, later)));
    }
    if order.is_sorted() {
        return ir;
    }
    let mut at = vec![0; count];
    order.iter().enumerate().for_each(|(to, &ix)| at[ix] = to);
    ir.nodes = order.iter().map(|&ix| ir.nodes[ix].clone()).collect();
    ir.renumber(&at);
    ir
}
