//! Rows: the first axis of inputs whose size is not 1, traced through a graph, so that the graph can be made for another
//! number of them.

mod reasons;
mod rule;
mod stretch;
mod trace;
mod worklist;

pub(crate) use trace::{Mixing, RowAxis, RowReduction, RowTrace, Traces};

use worklist::Worklist;

use super::{Graph, NodeId};
use crate::base::dtype::Scalar;
use crate::base::shape::{Move, Shape};
use crate::error::MistakeKind;
use crate::ops::{Op, Type, expected_type};

impl Graph {
    /// Traces the rows of `inputs`, the first axis of each that is not of size 1 ([`RowAxis::of_input`]), to all sources
    /// and to all values that outputs need. There are `rows` > 1.
    ///
    /// # Errors
    /// The first node that mixes rows.
    pub fn rows(&self, inputs: &[NodeId], rows: usize) -> Result<Traces, Mixing> {
        let traces = Worklist::new(self, inputs, rows).run()?;
        // Another number of rows shows what only the recorded number lets fit.
        match self.of_rows(&traces, rows, rows + 1) {
            Ok(_) => Ok(traces),
            Err((node, _)) => Err(Mixing::Rows { node, reason: reasons::RECORDED }),
        }
    }

    /// The graph for `to` rows in place of `rows`, with the same nodes.
    ///
    /// # Errors
    /// The node that cannot be, and why.
    pub fn of_rows(
        &self,
        traces: &Traces,
        rows: usize,
        to: usize,
    ) -> Result<Self, (NodeId, Box<MistakeKind>)> {
        let mut graph = self.clone();
        for &id in &self.order {
            let Some(trace) = traces.get(id) else {
                // No output needs it: it stands as a constant, so that nodes keep their positions.
                let node = &mut graph.nodes[id];
                node.op = Op::Full(Scalar::new(node.ty.dtype, 0.0));
                node.inputs.clear();
                continue;
            };
            if let RowTrace::Each(at) = *trace {
                let node = &mut graph.nodes[id];
                let scale = |of: usize| (of / rows).checked_mul(to);
                let dims = node.ty.shape.dims().iter().enumerate();
                let dims =
                    dims.map(|(axis, &dim)| if axis == at.axis { scale(dim) } else { Some(dim) });
                let Some(shape) = dims.collect::<Option<Shape>>() else {
                    let what = MistakeKind::TooLarge(node.ty.shape.clone());
                    return Err((id, Box::new(what)));
                };
                if let Op::Move { to: movement, .. } = &mut node.op {
                    match movement {
                        Move::Reshape(to) | Move::Broadcast(to) => *to = shape.clone(),
                        Move::Slice(ranges) => {
                            let range = &mut ranges[at.axis];
                            range.start = range.start / rows as i64 * to as i64;
                            range.count = shape[at.axis];
                        }
                        Move::Permute(_) | Move::Window { .. } => {}
                    }
                }
                node.ty.shape = shape;
            }
            let node = &graph[id];
            crate::ops::check_size(&node.ty.shape).map_err(|what| (id, Box::new(what)))?;
            let inputs: Vec<&Type> = node.inputs.iter().map(|&input| &graph[input].ty).collect();
            match expected_type(&node.op, &inputs, &node.ty) {
                Ok(ty) if ty == node.ty => {}
                Ok(ty) => {
                    let what = MistakeKind::Broadcast(node.ty.shape.clone(), ty.shape);
                    return Err((id, Box::new(what)));
                }
                Err(what) => return Err((id, Box::new(what))),
            }
        }
        Ok(graph)
    }
}
