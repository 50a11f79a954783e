//! Constants that are as long as there are rows, such as a state of zeros: they may grow with the rows.

use slotmap::SecondaryMap;
use smallvec::{SmallVec, smallvec};

use super::trace::RowAxis;
use crate::base::shape::Move;
use crate::graph::{Graph, NodeId};
use crate::ops::{MatMulDims, Op};

/// The constants that grow with the rows, with the axis along which all of their elements are equal.
pub(super) type Stretched = SecondaryMap<NodeId, RowAxis>;

/// The way in which a node grows.
enum Growth {
    /// The node is a constant, and grows by itself.
    Itself,
    /// The node grows with these operands, along their axes.
    With(SmallVec<[(NodeId, RowAxis); 3]>),
}

/// Lets the node, which does not depend on rows, grow along `at`, if it is the same for all rows. Returns the constants
/// that now grow and did not before: at least one.
///
/// # Errors
/// The value that cannot grow, and its axis.
pub(super) fn stretch(
    graph: &Graph,
    stretched: &mut Stretched,
    rows: usize,
    id: NodeId,
    at: RowAxis,
) -> Result<Vec<NodeId>, (NodeId, RowAxis)> {
    let (mut grown, mut seen, mut waiting) = (Vec::new(), Stretched::new(), vec![(id, at)]);
    while let Some((id, at)) = waiting.pop() {
        match stretched.get(id).or_else(|| seen.get(id)) {
            Some(known) if *known == at => continue,
            Some(_) => return Err((id, at)),
            None => seen.insert(id, at),
        };
        match growth(graph, rows, id, at) {
            Some(Growth::Itself) => {
                stretched.insert(id, at);
                grown.push(id);
            }
            Some(Growth::With(operands)) => waiting.extend(operands),
            None => return Err((id, at)),
        }
    }
    if grown.is_empty() { Err((id, at)) } else { Ok(grown) }
}

/// The value from which moves made `id`, with its axis, as far back as they leave the axis `at` whole.
pub(super) fn moved_from(
    graph: &Graph,
    rows: usize,
    mut id: NodeId,
    mut at: RowAxis,
) -> (NodeId, RowAxis) {
    while let (Op::Move { to, .. }, Some(&input)) = (&graph[id].op, graph[id].inputs.first()) {
        (id, at) = match (to, growth(graph, rows, id, at)) {
            (Move::Slice(_), _)
                if graph[id].ty.shape[at.axis] == graph[input].ty.shape[at.axis] =>
            {
                (input, at)
            }
            (_, Some(Growth::With(operands))) if operands.len() == 1 => operands[0],
            _ => break,
        };
    }
    (id, at)
}

fn growth(graph: &Graph, rows: usize, id: NodeId, at: RowAxis) -> Option<Growth> {
    let node = &graph[id];
    let rank = node.ty.shape.rank();
    let shape = |input: NodeId| &graph[input].ty.shape;
    let with = |input, axis| Growth::With(smallvec![(input, RowAxis { axis, ..at })]);
    match (&node.op, node.inputs.first()) {
        (Op::Full(_), _) => Some(Growth::Itself),
        (Op::Elementwise(..) | Op::Select | Op::Cast(_), _) => {
            let long = node.inputs.iter().filter_map(|&input| {
                let axis = at.axis.checked_sub(rank - shape(input).rank())?;
                (shape(input)[axis] != 1).then_some((input, RowAxis { axis, ..at }))
            });
            Some(Growth::With(long.collect()))
        }
        (Op::Move { to, .. }, Some(&input)) => match to {
            Move::Broadcast(_) => match at.axis.checked_sub(rank - shape(input).rank()) {
                Some(axis) if shape(input)[axis] != 1 => Some(with(input, axis)),
                _ => Some(Growth::Itself),
            },
            Move::Permute(axes) => Some(with(input, axes[at.axis])),
            Move::Reshape(to) => {
                let at = at.reshaped(to, shape(input), rows)?;
                Some(Growth::With(smallvec![(input, at)]))
            }
            Move::Slice(ranges) => {
                let (range, whole) = (ranges[at.axis], shape(input)[at.axis]);
                let is_whole = (range.start, range.step, range.count) == (0, 1, whole);
                is_whole.then(|| with(input, at.axis))
            }
            Move::Window { .. } => None,
        },
        (Op::MatMul(_), Some(&input)) => {
            let dims = MatMulDims::of(shape(input), shape(node.inputs[1])).ok()?;
            let is_row = !dims.vector_x && !dims.vector_w && at.axis + 2 == rank;
            is_row.then(|| with(input, shape(input).rank() - 2))
        }
        _ => None,
    }
}
