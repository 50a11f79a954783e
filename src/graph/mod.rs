//! The recorded graph: nodes in the order in which they were recorded, which is an order of
//! dependency.

mod dot;
mod hash;
mod part;
mod rows;

pub(crate) use hash::Fingerprint;
pub(crate) use part::{GraphPart, PartUpload};
pub(crate) use rows::{Mixing, RowAxis, RowReduction, RowTrace, Traces};
use slotmap::{SecondaryMap, SlotMap};
use smallvec::SmallVec;

use crate::base::place::Place;
use crate::ops::{Op, Type, expected_type};

slotmap::new_key_type! {
    /// A node of a [`Graph`].
    pub(crate) struct NodeId;
}

/// A recorded operation with its inputs.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub op: Op,
    /// The name in messages: the method that the user recorded it with, also for a part of an operation that is made of
    /// others. One of several results has a dot and a name of its own behind it.
    pub name: &'static str,
    pub inputs: SmallVec<[NodeId; 3]>,
    pub ty: Type,
    /// The place at which the user recorded it.
    pub place: Place,
}

impl Node {
    /// The method that the user recorded it with.
    pub fn method(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(method, _)| method)
    }
}

/// A recorded graph: plain data.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    nodes: SlotMap<NodeId, Node>,
    order: Vec<NodeId>,
    /// The downloaded nodes, in the order asked for.
    pub downloads: Vec<NodeId>,
    /// The nodes that stay on the device, in the order asked for.
    pub keeps: Vec<NodeId>,
    /// Nodes that only stand for parts that are kept, and are not downloaded by themselves.
    pub updates: Vec<NodeId>,
}

impl Default for Graph {
    /// Without nodes, and with room for a few: their memory need not grow in a small graph.
    fn default() -> Self {
        Self {
            nodes: SlotMap::with_capacity_and_key(3),
            order: Vec::new(),
            downloads: Vec::new(),
            keeps: Vec::new(),
            updates: Vec::new(),
        }
    }
}

impl Graph {
    pub fn push(&mut self, node: Node) -> NodeId {
        let id = self.nodes.insert(node);
        self.order.push(id);
        id
    }

    pub fn rename(&mut self, id: NodeId, name: &'static str) {
        self.nodes[id].name = name;
    }

    #[cfg(feature = "safetensors")]
    pub fn set_op(&mut self, id: NodeId, op: Op) {
        self.nodes[id].op = op;
    }

    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Every node, operands before users.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> {
        self.order.iter().map(|&id| (id, &self.nodes[id]))
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True if some kernel of the user's own has no function for the CPU.
    pub fn needs_gpu(&self) -> bool {
        let needs = |op: &Op| matches!(op, Op::Custom(kernel) if kernel.needs_gpu());
        self.iter().any(|(_, node)| needs(&node.op))
    }

    /// The downloads of a run: the nodes asked for, or else every result that nobody reads and that is neither kept nor
    /// an update (every such source, where nothing was computed and nothing is kept).
    pub fn outputs(&self) -> Vec<NodeId> {
        if !self.downloads.is_empty() {
            return self.downloads.clone();
        }
        let mut used = SecondaryMap::new();
        let read = self.iter().flat_map(|(_, node)| &node.inputs);
        for &id in read.chain(&self.keeps).chain(&self.updates) {
            used.insert(id, ());
        }
        let sinks = self.order.iter().copied().filter(|&id| !used.contains_key(id));
        let (sources, results): (Vec<_>, Vec<_>) =
            sinks.partition(|&id| self.nodes[id].op.is_source());
        if results.is_empty() && self.keeps.is_empty() { sources } else { results }
    }

    /// The nodes that outputs, kept values and updates need.
    pub fn live(&self) -> SecondaryMap<NodeId, ()> {
        let outputs = self.outputs();
        self.needed_by(outputs.iter().chain(&self.keeps).chain(&self.updates), |_| false)
    }

    /// The node `result` and those that it needs.
    pub fn needed_for(&self, result: NodeId) -> SecondaryMap<NodeId, ()> {
        self.needed_by(std::iter::once(&result), |_| false)
    }

    /// `results` and the nodes that they need, where those for which `is_given` holds need none.
    fn needed_by<'a>(
        &self,
        results: impl Iterator<Item = &'a NodeId>,
        is_given: impl Fn(NodeId) -> bool,
    ) -> SecondaryMap<NodeId, ()> {
        let mut needed: SecondaryMap<NodeId, ()> = results.map(|&id| (id, ())).collect();
        for (id, node) in self.iter().rev() {
            if needed.contains_key(id) && !is_given(id) {
                needed.extend(node.inputs.iter().map(|&input| (input, ())));
            }
        }
        needed
    }
}

impl std::ops::Index<NodeId> for Graph {
    type Output = Node;
    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }
}

impl Graph {
    /// Checks that operands exist and come before their users, and that each type follows from the operation's rule.
    /// Names the broken rule.
    pub fn verify(&self) -> Result<(), String> {
        let mut seen = SecondaryMap::new();
        for (id, node) in self.iter() {
            let name = node.op.name();
            if !node.inputs.iter().all(|&input| seen.contains_key(input)) {
                return Err(format!("{name} at {} precedes its operand", node.place));
            }
            seen.insert(id, ());
            let inputs: Vec<&Type> = node.inputs.iter().map(|&input| &self[input].ty).collect();
            match expected_type(&node.op, &inputs, &node.ty) {
                Ok(ty) if ty == node.ty => {}
                Ok(ty) => return Err(format!("{name} at {} is {ty}, not {}", node.place, node.ty)),
                Err(what) => return Err(format!("{name} at {}: {what}", node.place)),
            }
        }
        let asked = self.downloads.iter().chain(&self.keeps);
        if !asked.clone().all(|&id| seen.contains_key(id)) {
            return Err("an output is no node of the graph".into());
        }
        Ok(())
    }
}
