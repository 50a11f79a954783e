//! The trace of all nodes: each once, and again those whose operands turned out to grow with the rows.

use std::collections::BTreeSet;

use slotmap::SecondaryMap;
use smallvec::SmallVec;

use super::rule::TracedNode;
use super::stretch::{Stretched, moved_from, stretch};
use super::trace::{Mixing, RowAxis, RowTrace, Traces, Untraced};
use crate::graph::{Graph, NodeId};

/// The traces so far, and the nodes that wait for theirs.
pub(super) struct Worklist<'a> {
    graph: &'a Graph,
    inputs: &'a [NodeId],
    rows: usize,
    /// Sources, and the nodes that outputs need: operands before users.
    order: Vec<NodeId>,
    /// The position of each node in `order`. The fields below name nodes by it.
    positions: SecondaryMap<NodeId, usize>,
    readers: Vec<SmallVec<[usize; 2]>>,
    waiting: BTreeSet<usize>,
    stretched: Stretched,
    traces: Traces,
    /// Nodes traced so far, each time counted.
    steps: usize,
}

impl<'a> Worklist<'a> {
    /// All nodes that have traces wait.
    pub fn new(graph: &'a Graph, inputs: &'a [NodeId], rows: usize) -> Self {
        let live = graph.live();
        let traced =
            graph.iter().filter(|(id, node)| node.op.is_source() || live.contains_key(*id));
        let order: Vec<NodeId> = traced.map(|(id, _)| id).collect();
        let positions: SecondaryMap<_, _> = order.iter().copied().zip(0..).collect();
        let mut readers = vec![SmallVec::new(); order.len()];
        for (at, &id) in order.iter().enumerate() {
            graph[id].inputs.iter().for_each(|&input| readers[positions[input]].push(at));
        }
        Self {
            graph,
            inputs,
            rows,
            positions,
            readers,
            waiting: (0..order.len()).collect(),
            order,
            stretched: Stretched::new(),
            traces: Traces::new(),
            steps: 0,
        }
    }

    /// The traces of all nodes.
    ///
    /// # Errors
    /// The first node that mixes rows.
    pub fn run(&mut self) -> Result<Traces, Mixing> {
        // The first one that waits has operands whose traces are final, or change by a constant that grows for it.
        while let Some(at) = self.waiting.pop_first() {
            self.steps += 1;
            let id = self.order[at];
            match self.trace(id) {
                Ok(traced) => {
                    if self.traces.insert(id, traced) != Some(traced) {
                        self.waiting.extend(&self.readers[at]);
                    }
                }
                Err(Untraced::Mixes(mixing)) => return Err(mixing),
                Err(Untraced::Long(long, axis)) => {
                    let grown = stretch(self.graph, &mut self.stretched, self.rows, long, axis)
                        .map_err(|long| self.long(id, long))?;
                    self.waiting.extend(grown.into_iter().map(|id| self.positions[id]));
                    self.waiting.insert(at);
                }
            }
        }
        Ok(std::mem::take(&mut self.traces))
    }

    /// The mixing by `node` of rows with a value that is as long as there were rows.
    fn long(&self, node: NodeId, (id, at): (NodeId, RowAxis)) -> Mixing {
        let (operand, RowAxis { axis, .. }) = moved_from(self.graph, self.rows, id, at);
        Mixing::Long { node, operand, axis }
    }

    fn trace(&self, id: NodeId) -> Result<RowTrace, Untraced> {
        if self.inputs.contains(&id) {
            return Ok(RowTrace::Each(RowAxis::of_input(&self.graph[id].ty.shape)));
        }
        match self.stretched.get(id) {
            Some(&axis) => Ok(RowTrace::Each(axis)),
            None => {
                TracedNode { graph: self.graph, traces: &self.traces, rows: self.rows, id }.trace()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::GpuCommandBatch;
    use crate::device::Device;

    const ROWS: usize = 6;

    /// The traces of a graph that has one input, and the steps to them.
    fn traced(record: impl FnOnce(&GpuCommandBatch)) -> (Result<Traces, Mixing>, usize, usize) {
        let batch = GpuCommandBatch::new(&Device::cpu());
        record(&batch);
        let recorded = batch.recorded();
        let graph = &recorded.graph;
        let input = graph.iter().next().expect("an input").0;
        let inputs = [input];
        let mut list = Worklist::new(graph, &inputs, ROWS);
        let traces = list.run();
        (traces, list.steps, graph.len())
    }

    #[test]
    fn constants_that_grow_cost_steps_of_their_own_readers_alone() {
        const CONSTANTS: usize = 300;
        let (traces, steps, nodes) = traced(|batch| {
            let mut x = batch.input::<f32>("x", [ROWS, 2]);
            for at in 0..CONSTANTS {
                x = (x + batch.full([ROWS, 2], at as f32)).exp();
            }
            x.download();
        });
        assert_eq!(nodes, 3 * CONSTANTS + 1);
        assert!(traces.is_ok());
        // Each constant and its reader twice.
        assert_eq!(steps, nodes + 2 * CONSTANTS);
    }

    #[test]
    fn a_constant_that_is_read_by_many_ways_grows_once() {
        const DOUBLINGS: usize = 100;
        let (traces, steps, nodes) = traced(|batch| {
            let x = batch.input::<f32>("x", [ROWS, 2]);
            let mut sum = batch.full([ROWS, 2], 1.0_f32);
            for _ in 0..DOUBLINGS {
                sum = sum + sum.exp();
            }
            (x + sum).download();
        });
        assert!(traces.is_ok());
        assert_eq!(steps, nodes + 2 * DOUBLINGS + 2);
    }

    #[test]
    fn a_constant_that_would_grow_along_two_axes_is_an_error() {
        let (traces, ..) = traced(|batch| {
            let x = batch.input::<f32>("x", [ROWS, ROWS]);
            let square = batch.full([ROWS, ROWS], 1.0_f32);
            (x + (square + square.transpose())).download();
        });
        assert!(matches!(traces, Err(Mixing::Long { .. })));
    }
}
