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

    pub fn iter(&self) -> impl Iterator<Item = (&str, NodeId)> {
        self.0.iter().map(|(name, &node)| (&**name, node))
    }

    /// The names of the values that `is_meant` holds for, in order.
    pub fn of(&self, is_meant: impl Fn(NodeId) -> bool) -> Vec<String> {
        let meant = self.0.iter().filter(|&(_, &node)| is_meant(node));
        let mut names: Vec<String> = meant.map(|(name, _)| name.to_string()).collect();
        names.sort_unstable();
        names
    }

    /// The name of a value: of several the first in order.
    pub fn first(&self, node: NodeId) -> Option<&Arc<str>> {
        self.0.iter().filter(|&(_, &named)| named == node).map(|(name, _)| name).min()
    }

    /// The name of each of `outputs`: of several the first in order. One without a name is `output` and its position,
    /// in a file too.
    pub fn outputs(&self, outputs: &[NodeId]) -> Vec<String> {
        let by_node = self.by_node();
        let of = |(at, id): (usize, &NodeId)| match by_node.get(id) {
            Some(name) => name.to_string(),
            None => fresh(&format!("output{at}"), |name| self.0.contains_key(name)),
        };
        outputs.iter().enumerate().map(of).collect()
    }

    /// The name of each value that has one: of several the first in order.
    pub fn by_node(&self) -> HashMap<NodeId, Arc<str>> {
        let mut names: Vec<(&Arc<str>, NodeId)> =
            self.0.iter().map(|(name, &id)| (name, id)).collect();
        // The last name of a value stays.
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.into_iter().map(|(name, id)| (id, Arc::clone(name))).collect()
    }

    /// The name of a value of `graph` in messages.
    pub fn origin(&self, graph: &Graph, node: NodeId) -> Origin {
        Origin {
            op: graph[node].name,
            name: self.first(node).cloned(),
            place: graph[node].place.clone(),
        }
    }
}

/// `name`, or with a number behind it where that is taken.
pub(crate) fn fresh(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (1..).map(|at| format!("{name}.{at}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}
