//! Networks of capacities, and their minimum cuts.

use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

/// A network of capacities between a source and a sink.
pub(crate) struct Network {
    graph: DiGraph<(), u64>,
    source: NodeIndex,
    sink: NodeIndex,
}

/// A node of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vertex(NodeIndex);

impl Network {
    /// A capacity that no cut pays.
    pub const NEVER: u64 = 1 << 62;

    /// A source and a sink.
    pub fn new() -> Self {
        let mut graph = DiGraph::new();
        let (source, sink) = (graph.add_node(()), graph.add_node(()));
        Self { graph, source, sink }
    }

    pub fn source(&self) -> Vertex {
        Vertex(self.source)
    }

    pub fn sink(&self) -> Vertex {
        Vertex(self.sink)
    }

    /// One more node.
    pub fn add(&mut self) -> Vertex {
        Vertex(self.graph.add_node(()))
    }

    /// The cost of a cut that leaves `from` with the source and `to` with the sink.
    pub fn pay(&mut self, from: Vertex, to: Vertex, capacity: u64) {
        if capacity > 0 {
            self.graph.add_edge(from.0, to.0, capacity);
        }
    }

    /// The nodes that stay with the source in a cut of least capacity: the fewest that can.
    pub fn cut(&self) -> impl Fn(Vertex) -> bool + use<> {
        let (_, flows) = dinics(&self.graph, self.source, self.sink);
        let mut with_source = vec![false; self.graph.node_count()];
        let mut open = vec![self.source];
        with_source[self.source.index()] = true;
        while let Some(node) = open.pop() {
            let forward = self.graph.edges(node);
            let forward = forward
                .filter(|edge| flows[edge.id().index()] < *edge.weight())
                .map(|edge| edge.target());
            let back = self.graph.edges_directed(node, petgraph::Incoming);
            let back = back.filter(|edge| flows[edge.id().index()] > 0).map(|edge| edge.source());
            for next in forward.chain(back) {
                if !std::mem::replace(&mut with_source[next.index()], true) {
                    open.push(next);
                }
            }
        }
        move |node: Vertex| with_source[node.0.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_edges_are_cut() {
        let mut network = Network::new();
        let [a, b] = [network.add(), network.add()];
        network.pay(network.source(), a, 5);
        network.pay(a, b, 2);
        network.pay(b, network.sink(), 5);
        network.pay(b, a, Network::NEVER);
        let with_source = network.cut();
        assert!(with_source(a) && !with_source(b));
        network.pay(a, b, 10);
        let with_source = network.cut();
        assert!(!with_source(a), "of equals, the cut with the fewest on the source's side");
    }
}
