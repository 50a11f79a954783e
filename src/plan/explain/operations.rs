//! The recorded operations, each with what became of it in a plan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use slotmap::SecondaryMap;
use smallvec::SmallVec;

use crate::graph::{Graph, NodeId};
use crate::ops::Op;
use crate::picture::{Fate, Operation};
use crate::plan::PlacedGraph;

/// The operations of `graph`, which was planned as `placed`, in the order recorded. `names` has the names that the user
/// gave.
pub(super) fn operations(
    graph: &Graph,
    names: &HashMap<NodeId, Arc<str>>,
    placed: &PlacedGraph,
) -> Vec<Operation> {
    let computed_by = computed_by(placed);
    let live = graph.live();
    let results: HashSet<NodeId> = graph.outputs().into_iter().chain(graph.keeps.clone()).collect();
    let mut at = SecondaryMap::new();
    let mut operations = Vec::with_capacity(graph.len());
    for (position, (id, node)) in graph.iter().enumerate() {
        at.insert(id, position);
        let kernels = computed_by.get(id).cloned().unwrap_or_default();
        let fate = match &node.op {
            _ if !kernels.is_empty() => Fate::Computed,
            _ if !live.contains_key(id) => Fate::Unused,
            Op::Upload(_) | Op::Resident(_) => Fate::Source,
            Op::Full(_) => Fate::Number,
            Op::Move { .. } => Fate::View,
            _ => Fate::Simplified,
        };
        operations.push(Operation {
            name: node.op.name(),
            method: node.method(),
            given: names.get(&id).cloned(),
            ty: node.ty.clone(),
            place: node.place.clone(),
            inputs: node.inputs.iter().map(|&input| at[input]).collect(),
            fate,
            kernels,
            is_result: results.contains(&id),
        });
    }
    link_others(&mut operations);
    operations
}

/// The kernels that compute each node, by position among those of all parts.
fn computed_by(placed: &PlacedGraph) -> SecondaryMap<NodeId, SmallVec<[usize; 2]>> {
    let mut computed_by: SecondaryMap<NodeId, SmallVec<[usize; 2]>> = SecondaryMap::new();
    let steps = placed.pieces.iter().flat_map(|plan| &plan.steps);
    for (kernel, step) in steps.enumerate() {
        for op in &step.ops {
            let Some(entry) = computed_by.entry(op.node) else { continue };
            let kernels = entry.or_default();
            if kernels.last() != Some(&kernel) {
                kernels.push(kernel);
            }
        }
    }
    computed_by
}

/// Links the operations that no kernel computes: to the kernels that read their values or, where there are none, to
/// those that make them.
fn link_others(operations: &mut [Operation]) {
    for at in (0..operations.len()).rev() {
        let (before, rest) = operations.split_at_mut(at);
        let Some(Operation { inputs, kernels, fate, .. }) = rest.first_mut() else { continue };
        // All readers came before: their kernels are sorted once, not with each of them.
        kernels.sort_unstable();
        kernels.dedup();
        for &input in &*inputs {
            let operand = &mut before[input];
            if *fate != Fate::Unused && operand.fate != Fate::Computed {
                operand.kernels.extend_from_slice(kernels);
            }
        }
    }
    for at in 0..operations.len() {
        let (before, rest) = operations.split_at_mut(at);
        let Some(operation) = rest.first_mut() else { continue };
        if operation.kernels.is_empty() && operation.fate != Fate::Unused {
            let operands = operation.inputs.iter().filter_map(|&input| before.get(input));
            operands.for_each(|operand| add(&mut operation.kernels, &operand.kernels));
        }
    }
}

/// Adds the kernels of `more` that `kernels` lacks.
fn add(kernels: &mut SmallVec<[usize; 2]>, more: &[usize]) {
    kernels.extend_from_slice(more);
    kernels.sort_unstable();
    kernels.dedup();
}
