//! The invariants of a recorded graph.

use super::Graph;
use crate::ops::{Type, infer};

impl Graph {
    /// Checks that operands exist and come before their users, and that each type follows from
    /// the operation's rule. Says what is broken.
    pub fn verify(&self) -> Result<(), String> {
        let mut seen = slotmap::SecondaryMap::new();
        for (id, node) in self.iter() {
            let name = node.op.name();
            if !node.inputs.iter().all(|&input| seen.contains_key(input)) {
                return Err(format!("{name} at {} precedes its operand", node.place));
            }
            seen.insert(id, ());
            if node.op.states_its_type() {
                continue;
            }
            let inputs: Vec<&Type> = node.inputs.iter().map(|&input| &self[input].ty).collect();
            match infer(&node.op, &inputs) {
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
