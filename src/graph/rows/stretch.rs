//! Constants that are as long as there are rows, such as a state of zeros: they may grow with the rows.

use slotmap::SecondaryMap;

use super::trace::RowAxis;
use crate::base::shape::Move;
use crate::graph::{Graph, NodeId};
use crate::ops::{MatMulDims, Op};

/// The constants that grow with the rows, with the axis along which all of their elements are equal.
pub(super) type Stretched = SecondaryMap<NodeId, RowAxis>;

/// Lets the node, which does not depend on rows, grow along `at`, if it is the same for all rows.
pub(super) fn stretch(
    graph: &Graph,
    stretched: &mut Stretched,
    rows: usize,
    id: NodeId,
    at: RowAxis,
) -> bool {
    if let Some(known) = stretched.get(id) {
        return *known == at;
    }
    let node = &graph[id];
    let operand = |input: usize| node.inputs[input];
    let rank = node.ty.shape.rank();
    let from = match (&node.op, node.inputs.first()) {
        (Op::Full(_), _) => {
            stretched.insert(id, at);
            return true;
        }
        (Op::Elementwise(..) | Op::Select | Op::Cast(_), _) => {
            let mut inputs = node.inputs.iter();
            return inputs.all(|&input| {
                let own = at.axis.checked_sub(rank - graph[input].ty.shape.rank());
                own.is_none_or(|axis| {
                    graph[input].ty.shape[axis] == 1
                        || stretch(graph, stretched, rows, input, RowAxis { axis, ..at })
                })
            });
        }
        (Op::Move { to, .. }, Some(&input)) => {
            let shape = &graph[input].ty.shape;
            match to {
                Move::Broadcast(_) => match at.axis.checked_sub(rank - shape.rank()) {
                    Some(axis) if shape[axis] != 1 => Some((input, RowAxis { axis, ..at })),
                    _ => {
                        stretched.insert(id, at);
                        return true;
                    }
                },
                Move::Permute(axes) => Some((input, RowAxis { axis: axes[at.axis], ..at })),
                Move::Reshape(to) => at.reshaped(to, shape, rows).map(|at| (input, at)),
                Move::Slice(_) | Move::Window { .. } => None,
            }
        }
        (Op::MatMul(_), Some(&input)) => {
            let dims = MatMulDims::of(&graph[input].ty.shape, &graph[operand(1)].ty.shape);
            let is_matrix = |dims: &MatMulDims| !dims.vector_x && !dims.vector_w;
            match dims.ok().filter(is_matrix) {
                Some(_) if at.axis + 2 == rank => {
                    let axis = graph[input].ty.shape.rank() - 2;
                    Some((input, RowAxis { axis, ..at }))
                }
                _ => None,
            }
        }
        _ => None,
    };
    from.is_some_and(|(input, at)| stretch(graph, stretched, rows, input, at))
}
