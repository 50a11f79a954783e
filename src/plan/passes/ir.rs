//! The planner's own graph: the nodes that the outputs need, by position, simplified pass by pass.

use slotmap::SecondaryMap;
use smallvec::SmallVec;

use crate::base::place::Place;
use crate::graph::{Graph, Node, NodeId};
use crate::ops::{Op, Type};

/// A node by position in [`Ir::nodes`].
pub(crate) type Ix = usize;

/// The live part of a graph. Operands come before their users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ir {
    pub nodes: Vec<IrNode>,
    pub downloads: Vec<Ix>,
    pub keeps: Vec<Ix>,
}

#[derive(Clone, Debug)]
pub(crate) struct IrNode {
    pub op: Op,
    pub inputs: SmallVec<[Ix; 3]>,
    pub ty: Type,
    pub place: Place,
    pub node: NodeId,
}

impl Ir {
    /// The nodes of `graph` that its outputs need: the pass *prune*.
    pub fn prune(graph: &Graph) -> Self {
        let mut at = SecondaryMap::with_capacity(graph.len());
        let mut ir = Self { nodes: Vec::with_capacity(graph.len()), ..Self::default() };
        for (id, node) in graph.iter() {
            let Node { op, inputs, ty, place, .. } = node;
            let inputs = inputs.iter().map(|&input| at[input]).collect();
            at.insert(
                id,
                ir.push(IrNode {
                    op: op.clone(),
                    inputs,
                    ty: ty.clone(),
                    place: place.clone(),
                    node: id,
                }),
            );
        }
        ir.downloads = graph.outputs().into_iter().map(|id| at[id]).collect();
        ir.keeps = graph.keeps.iter().map(|&id| at[id]).collect();
        ir.swept()
    }

    /// The positions whose values leave the run.
    pub fn outputs(&self) -> impl Iterator<Item = Ix> + '_ {
        self.downloads.iter().chain(&self.keeps).copied()
    }

    /// The positions whose values kernels of the user's own read.
    pub fn read_as_they_are(&self) -> impl Iterator<Item = Ix> + '_ {
        let own = self.nodes.iter().filter(|node| matches!(node.op, Op::Custom(_)));
        own.flat_map(|node| node.inputs.iter().copied())
    }

    /// True if two nodes are the two results of one sort.
    pub fn is_pair(&self, a: Ix, b: Ix) -> bool {
        let (Some(a), Some(b)) = (self.nodes.get(a), self.nodes.get(b)) else { return false };
        let (Op::Sort { how, part }, Op::Sort { how: other, part: other_part }) = (&a.op, &b.op)
        else {
            return false;
        };
        how == other && part != other_part && a.inputs == b.inputs
    }

    /// Without the nodes that no output needs any more.
    pub fn swept(mut self) -> Self {
        let mut live = vec![false; self.nodes.len()];
        for ix in self.outputs() {
            live[ix] = true;
        }
        for ix in (0..self.nodes.len()).rev() {
            if live[ix] {
                for &input in &self.nodes[ix].inputs {
                    live[input] = true;
                }
            }
        }
        if !live.contains(&false) {
            return self;
        }
        let before = live.iter().scan(0, |count, &live| {
            let before = *count;
            *count += usize::from(live);
            Some(before)
        });
        let at: Vec<Ix> = before.collect();
        let mut live = live.into_iter();
        self.nodes.retain(|_| live.next() == Some(true));
        self.renumber(&at);
        self
    }

    /// The graph that `add` makes of the nodes, one after the other: it is given each with its inputs in the new graph, and
    /// returns the position of its value there.
    pub fn rebuilt(self, mut add: impl FnMut(&mut Self, IrNode) -> Ix) -> Self {
        let count = self.nodes.len();
        let mut out = Self { nodes: Vec::with_capacity(count), ..Self::default() };
        let mut at = Vec::with_capacity(count);
        for mut node in self.nodes {
            node.inputs.iter_mut().for_each(|input| *input = at[*input]);
            at.push(add(&mut out, node));
        }
        out.downloads = self.downloads.iter().map(|&ix| at[ix]).collect();
        out.keeps = self.keeps.iter().map(|&ix| at[ix]).collect();
        out
    }

    pub fn push(&mut self, node: IrNode) -> Ix {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Replaces each position by its entry in `at`.
    pub fn renumber(&mut self, at: &[Ix]) {
        for node in &mut self.nodes {
            node.inputs.iter_mut().for_each(|input| *input = at[*input]);
        }
        self.downloads.iter_mut().chain(&mut self.keeps).for_each(|ix| *ix = at[*ix]);
    }
}
