//! Faults in the data of a run, in the user's terms.

use std::sync::Arc;

use crate::base::dtype::DType;
use crate::base::shape::{Shape, View};
use crate::error::{Fault, FaultKind, Lookup, Origin};
use crate::exec::HostBuffer;
use crate::graph::{Graph, Node, NodeId};
use crate::ops::Op;
use crate::record::Record;

/// The fault at element `at` of the values that the node `id` works with, in a run with these uploads.
pub(super) fn fault(recorded: &Record, uploads: &[Arc<HostBuffer>], id: NodeId, at: u32) -> Fault {
    let graph = &recorded.graph;
    let node = &graph[id];
    let (shape, what) = match node.op {
        Op::InRange { axis, size, .. } => {
            let index = known_integer(graph, uploads, node.inputs[0], at);
            let what = match axis {
                Some(axis) => FaultKind::Index { index, axis, size, lookup: None },
                None => FaultKind::Class { class: index, classes: size },
            };
            (&node.ty.shape, what)
        }
        Op::Gather { axis, .. } | Op::TakeAlong { axis, .. } => {
            let [table, indices] = [0, 1].map(|input| node.inputs[input]);
            let shape = graph[table].ty.shape.clone();
            let (size, index) = (shape[axis], known_integer(graph, uploads, indices, at));
            let lookup = Lookup {
                table: source(recorded, table),
                shape,
                indices: source(recorded, moved_from(recorded, indices)),
                operation: graph.iter().take_while(|&(other, _)| other != id).count(),
            };
            let lookup = Some(Box::new(lookup));
            (&graph[indices].ty.shape, FaultKind::Index { index, axis, size, lookup })
        }
        _ => (&node.ty.shape, FaultKind::DivisionByZero),
    };
    Fault { place: node.place.clone(), op: node.name, at: coordinates(shape, at), what }
}

/// Follows `indices` back over moves, up to the first value with a name.
fn moved_from(recorded: &Record, mut indices: NodeId) -> NodeId {
    let Record { graph, names, .. } = recorded;
    while let (Op::Move { .. }, None) = (&graph[indices].op, names.first(indices)) {
        indices = graph[indices].inputs[0];
    }
    indices
}

/// The origin of a value: that of the resident behind it, since the node has the name of the method that bound it.
fn source(recorded: &Record, value: NodeId) -> Origin {
    let origin = recorded.origin(value);
    match recorded.graph[value].op {
        Op::Resident(at) => {
            let resident = recorded.residents[at as usize].origin();
            Origin { name: origin.name.or(resident.name), ..resident }
        }
        _ => origin,
    }
}

/// Element `at` of a node of integers, where the host knows it: in uploads, and in views of them.
fn known_integer(graph: &Graph, uploads: &[Arc<HostBuffer>], node: NodeId, at: u32) -> Option<i64> {
    let Node { op, inputs, ty, .. } = &graph[node];
    match op {
        Op::Upload(upload) => {
            let buffer = uploads.get(*upload as usize)?;
            match ty.dtype {
                DType::I32 => buffer.as_slice::<i32>()?.get(at as usize).map(|&x| x.into()),
                DType::U32 => buffer.as_slice::<u32>()?.get(at as usize).map(|&x| x.into()),
                _ => None,
            }
        }
        Op::Full(value) => Some(value.value() as i64),
        Op::Move { to, .. } => {
            let from = View::contiguous(&graph[inputs[0]].ty.shape).moved(to)?;
            let coordinates = coordinates(&ty.shape, at);
            let steps = coordinates.iter().zip(&from.strides).map(|(&c, &s)| c as i64 * s);
            let at = u32::try_from(from.offset + steps.sum::<i64>()).ok()?;
            known_integer(graph, uploads, inputs[0], at)
        }
        _ => None,
    }
}

fn coordinates(shape: &Shape, at: u32) -> Vec<usize> {
    let mut rest = at as usize;
    let mut coordinates: Vec<usize> = shape
        .dims()
        .iter()
        .rev()
        .map(|&dim| {
            let coordinate = rest % dim.max(1);
            rest /= dim.max(1);
            coordinate
        })
        .collect();
    coordinates.reverse();
    coordinates
}
