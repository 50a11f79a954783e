//! The graph in Graphviz's language.

use std::fmt::Write as _;

use petgraph::dot::{Config, Dot};
use petgraph::graph::DiGraph;
use slotmap::SecondaryMap;

use super::{Graph, NodeId};

impl Graph {
    /// The graph as petgraph knows it: nodes by id, an edge from each operand to its user.
    pub fn to_petgraph(&self) -> DiGraph<NodeId, usize> {
        let mut out = DiGraph::with_capacity(self.len(), self.len());
        let mut at = SecondaryMap::new();
        for (id, node) in self.iter() {
            let user = out.add_node(id);
            at.insert(id, user);
            for (position, &input) in node.inputs.iter().enumerate() {
                if let Some(&operand) = at.get(input) {
                    out.add_edge(operand, user, position);
                }
            }
        }
        out
    }

    /// Operations as boxes, those that leave the run doubly framed.
    pub fn to_dot(&self) -> String {
        let graph = self.to_petgraph();
        let outputs = self.outputs();
        let node = |_: &_, (_, id): (_, &NodeId)| {
            let node = &self[*id];
            let mut text = format!("label=\"{}\\n{}\" shape=box", node.op.name(), node.ty);
            if outputs.contains(id) || self.keeps.contains(id) {
                text.push_str(" peripheries=2");
            }
            let _ =
                write!(text, " tooltip=\"{}:{}\"", escaped(node.place.file()), node.place.line());
            text
        };
        let config = [Config::NodeNoLabel, Config::EdgeNoLabel];
        let edge = |_: &_, _: petgraph::graph::EdgeReference<'_, usize>| String::new();
        format!("{:?}", Dot::with_attr_getters(&graph, &config, &edge, &node))
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
