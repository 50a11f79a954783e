//! The orders to the parts of a graph: results, and values for each other.

use std::collections::HashSet;

use super::Stage;
use crate::graph::NodeId;

/// The values that one part is asked for.
#[derive(Default)]
pub(super) struct Order {
    pub downloads: Vec<NodeId>,
    pub keeps: Vec<NodeId>,
    /// The values that other parts make for it.
    pub given: HashSet<NodeId>,
}

/// The orders of all parts, by stage.
#[derive(Default)]
pub(super) struct Orders([Order; 4]);

/// An output, by position among what the part of a stage downloads or keeps.
pub(super) type Place = (Stage, usize);

impl Orders {
    pub fn of(&self, stage: Stage) -> &Order {
        &self.0[stage as usize]
    }

    pub fn of_mut(&mut self, stage: Stage) -> &mut Order {
        &mut self.0[stage as usize]
    }

    pub fn download(&mut self, stage: Stage, node: NodeId) -> Place {
        let downloads = &mut self.of_mut(stage).downloads;
        let known = downloads.iter().position(|&download| download == node);
        let at = known.unwrap_or_else(|| {
            downloads.push(node);
            downloads.len() - 1
        });
        (stage, at)
    }

    pub fn keep(&mut self, stage: Stage, node: NodeId) -> Place {
        let keeps = &mut self.of_mut(stage).keeps;
        keeps.push(node);
        (stage, keeps.len() - 1)
    }

    /// The stages whose parts have something to make.
    pub fn present(&self) -> Vec<Stage> {
        let asked = |stage: &Stage| {
            let Order { downloads, keeps, .. } = self.of(*stage);
            !downloads.is_empty() || !keeps.is_empty()
        };
        Stage::ALL.into_iter().filter(asked).collect()
    }

    /// The makers of the values that others are given.
    pub fn maker(&self, node: NodeId) -> Option<Place> {
        let makes = |order: &Order| !order.given.contains(&node);
        Stage::ALL.into_iter().find_map(|stage| {
            let order = Some(self.of(stage)).filter(|order| makes(order))?;
            Some((stage, order.downloads.iter().position(|&download| download == node)?))
        })
    }
}
