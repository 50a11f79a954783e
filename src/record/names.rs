//! The names that the user gave to values.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Origin;
use crate::graph::{Graph, NodeId};

#[derive(Clone, Debug, Default)]
pub(crate) struct Names(HashMap<Arc<str>, NodeId>);

impl Names {
    pub fn insert(&mut self, name: &str, node: NodeId) {
        self.0.insert(name.into(), node);
    }

    pub fn get(&self, name: &str) -> Option<NodeId> {
        self.0.get(name).copied()
    }

    #[cfg(feature = "safetensors")]
    pub fn iter(&self) -> impl Iterator<Item = (&str, NodeId)> {
        self.0.iter().map(|(name, &node)| (&**name, node))
    }

    pub fn all(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.keys().map(ToString::to_string).collect();
        names.sort_unstable();
        names
    }

    /// The name of a value of `graph` in messages: of several names the first in order.
    pub fn origin(&self, graph: &Graph, node: NodeId) -> Origin {
        let names = self.0.iter().filter(|&(_, &named)| named == node);
        let name = names.map(|(name, _)| Arc::clone(name)).min();
        Origin { op: graph[node].name, name, place: graph[node].place.clone() }
    }
}
