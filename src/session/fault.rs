//! Faults in the data of a run, in the user's terms.

use std::sync::Arc;

use crate::base::dtype::{DType, Element, Scalar};
use crate::base::shape::{Move, Shape, View};
use crate::error::{Fault, FaultKind, Lookup};
use crate::exec::HostBuffer;
use crate::graph::{Graph, Node, NodeId};
use crate::ops::Op;
use crate::plan::evaluate_element;
use crate::record::Record;

/// The fault at element `at` of the values that the node `id` works with, in a run with these uploads.
pub(super) fn fault(recorded: &Record, uploads: &[Arc<HostBuffer>], id: NodeId, at: u32) -> Fault {
    let graph = &recorded.graph;
    let node = &graph[id];
    let known_integer = |node| {
        let mut known = KnownIntegers { graph, uploads, visits: 64 };
        known.element(node, at).map(|value| value.value() as i64)
    };
    let (shape, what) = match node.op {
        Op::InRange { axis, size, .. } => {
            let index = known_integer(node.inputs[0]);
            let what = match axis {
                Some(axis) => FaultKind::Index { index, axis, size, lookup: None },
                None => FaultKind::Class { class: index, classes: size },
            };
            (&node.ty.shape, what)
        }
        Op::Gather { axis, .. } | Op::TakeAlong { axis, .. } => {
            let [table, indices] = [0, 1].map(|input| node.inputs[input]);
            let shape = graph[table].ty.shape.clone();
            let (size, index) = (shape[axis], known_integer(indices));
            let from = moved_from(recorded, indices);
            let lookup = Lookup {
                table: recorded.source(table),
                shape,
                indices: recorded.source(from),
                computed: is_computed(graph, from),
                operation: graph.iter().take_while(|&(other, _)| other != id).count(),
            };
            let lookup = Some(Box::new(lookup));
            (&graph[indices].ty.shape, FaultKind::Index { index, axis, size, lookup })
        }
        _ => (&node.ty.shape, FaultKind::DivisionByZero),
    };
    Fault { place: node.place.clone(), op: node.name, at: shape.coordinates(at as usize), what }
}

/// Returns whether an operation computed a value from others, beside moves.
fn is_computed(graph: &Graph, mut value: NodeId) -> bool {
    while let Op::Move { .. } = graph[value].op {
        value = graph[value].inputs[0];
    }
    !graph[value].inputs.is_empty()
}

/// Follows `indices` back over moves, up to the first value with a name.
fn moved_from(recorded: &Record, mut indices: NodeId) -> NodeId {
    let Record { graph, names, .. } = recorded;
    while let (Op::Move { .. }, None) = (&graph[indices].op, names.first(indices)) {
        indices = graph[indices].inputs[0];
    }
    indices
}

/// The integers of a run that the host can work out: those of uploads, of views of them, and what arithmetic of integers
/// makes of these.
struct KnownIntegers<'a> {
    graph: &'a Graph,
    uploads: &'a [Arc<HostBuffer>],
    /// The nodes that may still be visited: a bound for long chains, and for values that are read many times.
    visits: u32,
}

impl KnownIntegers<'_> {
    /// Element `at` of a node.
    fn element(&mut self, node: NodeId, at: u32) -> Option<Scalar> {
        self.visits = self.visits.checked_sub(1)?;
        let Node { op, inputs, ty, .. } = &self.graph[node];
        // Sides round floats in ways of their own.
        if ty.dtype.is_float() {
            return None;
        }
        match op {
            Op::Upload(upload) => {
                let buffer = self.uploads.get(*upload as usize)?;
                match ty.dtype {
                    DType::I32 => uploaded::<i32>(buffer, at),
                    DType::U32 => uploaded::<u32>(buffer, at),
                    DType::Bool => uploaded::<bool>(buffer, at),
                    DType::F32 | DType::F16 => None,
                }
            }
            Op::Full(value) => Some(*value),
            Op::Move { to, .. } => self.moved(inputs[0], to, &ty.shape, at),
            Op::Cast(_) | Op::Select | Op::Elementwise(..) => {
                let to = Move::Broadcast(ty.shape.clone());
                let inputs = inputs.iter().map(|&input| self.moved(input, &to, &ty.shape, at));
                let values: Vec<Scalar> = inputs.collect::<Option<_>>()?;
                evaluate_element(op, ty.dtype, &values)
            }
            _ => None,
        }
    }

    /// Element `at` of `shape`, to which a node was moved.
    fn moved(&mut self, node: NodeId, to: &Move, shape: &Shape, at: u32) -> Option<Scalar> {
        let from = View::contiguous(&self.graph[node].ty.shape).moved(to)?;
        let coordinates = shape.coordinates(at as usize);
        let steps = coordinates.iter().zip(&from.strides).map(|(&c, &s)| c as i64 * s);
        let at = u32::try_from(from.offset + steps.sum::<i64>()).ok()?;
        self.element(node, at)
    }
}

fn uploaded<T: Element>(buffer: &HostBuffer, at: u32) -> Option<Scalar> {
    buffer.as_slice::<T>()?.get(at as usize).map(|&element| element.scalar())
}
