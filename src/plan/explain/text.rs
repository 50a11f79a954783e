//! The text of one plan: its sources, kernels and results.

use std::fmt::Write as _;

use super::not_fused::Unfused;
use super::repeats::{kind, write_steps};
use super::value_names::ValueNames;
use crate::base::units::{bytes, count, quantity, seconds};
use crate::cost::{Backend, Limits};
use crate::error::quoted;
use crate::graph::{Graph, Node, NodeId};
use crate::ops::Op;
use crate::picture::repeats::ShownSteps;
use crate::plan::execution_plan::Plan;
use crate::plan::forms::Measure;
use crate::plan::order::memory::lives;
use crate::plan::step::{Step, total};
use crate::plan::value::{Home, ValueId};

/// Uploads, and residents, that are named.
const NAMED: usize = 3;

/// The printer of a plan.
pub(super) struct Printer<'a> {
    plan: &'a Plan,
    graph: &'a Graph,
    limits: &'a Limits,
    names: &'a ValueNames,
    unfused: Unfused<'a>,
    /// The values of each slot, each after the last step that needs it, in the order of these steps.
    tenants: Vec<Vec<(usize, ValueId)>>,
}

impl<'a> Printer<'a> {
    pub fn new(
        plan: &'a Plan,
        graph: &'a Graph,
        limits: &'a Limits,
        names: &'a ValueNames,
    ) -> Self {
        let mut tenants = vec![Vec::new(); plan.slots.len()];
        for ((value, life), id) in plan.values.iter().zip(lives(plan)).zip(0..) {
            if let (Home::Slot(slot) | Home::Upload { slot: Some(slot), .. }, Some(life)) =
                (value.home, life)
            {
                tenants[slot].push((life.last, ValueId(id)));
            }
        }
        tenants.iter_mut().for_each(|of_slot| of_slot.sort_unstable());
        Self { plan, graph, limits, names, unfused: Unfused::new(plan), tenants }
    }

    /// Prints the plan with these steps.
    pub fn print(&self, text: &mut String, shown: ShownSteps) {
        let plan = self.plan;
        let name = |id: ValueId| self.name(id);
        self.sources(text, "upload", |home| matches!(home, Home::Upload { .. }));
        self.sources(text, "resident", |home| matches!(home, Home::Resident(_)));
        let kinds: Vec<u64> = plan.steps.iter().map(|step| kind(plan, step, "")).collect();
        write_steps(text, &kinds, shown, |text, at| self.step(text, at, &plan.steps[at]));
        if !plan.downloads.is_empty() {
            let _ = writeln!(text, "  download {}", list(&plan.downloads, name));
        }
        if !plan.keeps.is_empty() {
            let _ = writeln!(text, "  keep {}", list(&plan.keeps, name));
        }
    }

    /// One line for all uploads or all residents, with the largest of them by name.
    fn sources(&self, text: &mut String, what: &str, is_one: fn(&Home) -> bool) {
        let size = |id: &ValueId| self.plan.values[id.index()].bytes(self.limits);
        let ids = (0..self.plan.values.len() as u32).map(ValueId);
        let mut ids: Vec<ValueId> =
            ids.filter(|id| is_one(&self.plan.values[id.index()].home)).collect();
        if ids.is_empty() {
            return;
        }
        let number = count(ids.len() as u64, what);
        let together = bytes(total(ids.iter().map(size)));
        let largest = if ids.len() > NAMED { "the largest " } else { "" };
        if ids.len() > NAMED {
            ids.sort_unstable_by_key(|id| (std::cmp::Reverse(size(id)), *id));
            ids.truncate(NAMED);
        }
        let named = ids.iter().map(|&id| {
            let place = self.plan.values[id.index()].place.to_string();
            format!("{} at {place}", self.value(id))
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "  {number} ({together}): {largest}{named}");
    }

    fn step(&self, text: &mut String, at: usize, step: &Step) {
        let outputs: Vec<ValueId> = step.outputs.iter().map(|output| output.value).collect();
        let (label, form) = (step.label(), step.form.kernel().name());
        let (calls, inside) = (self.calls(step), self.names_inside(step, &outputs));
        let _ = writeln!(text, "  {}. {label} ({form}){calls}{inside} at {}", at + 1, step.place);
        let reads = step.reads();
        let reads =
            if reads.is_empty() { "nothing".to_owned() } else { list(&reads, |id| self.read(id)) };
        let _ = writeln!(text, "     {} ← {reads}", list(&outputs, |id| self.value(id)));
        let cost = &step.cost;
        let _ = write!(
            text,
            "     on {}: {}, {} read, {} written, predicted {}",
            self.plan.backend,
            match step.form.kernel().measure() {
                Measure::Flops => format!("{} flops", quantity(cost.flops)),
                Measure::Elements(elements) => format!("{} elements", quantity(elements)),
            },
            bytes(cost.bytes_read),
            bytes(cost.bytes_written),
            seconds(cost.seconds.on(self.plan.backend)),
        );
        if let (Some(own), Backend::Gpu) = (step.form.kernel().custom_kernel(), self.plan.backend) {
            let [x, y, z] = own.groups;
            let _ = write!(text, "; {x} × {y} × {z} workgroups");
        }
        if let Some(memory) = self.memory(at, &outputs) {
            let _ = write!(text, "; {memory}");
        }
        text.push('\n');
        for (made, why) in self.unfused.not_fused_with(at) {
            let _ = writeln!(text, "     not fused with {}: {why}", made + 1);
        }
    }

    /// The methods that the user called, where they are made of other operations: ` of conv2d`.
    fn calls(&self, step: &Step) -> String {
        let mut calls: Vec<&str> = Vec::new();
        for op in &step.ops {
            let Some(call) = self.graph.get(op.node).map(|node| node.name) else { continue };
            if step.ops.iter().all(|op| op.name != call) && !calls.contains(&call) {
                calls.push(call);
            }
        }
        if calls.is_empty() { String::new() } else { format!(" of {}", calls.join(", ")) }
    }

    /// The names of values that the kernel computes and does not store: `, with "hidden" inside,`.
    fn names_inside(&self, step: &Step, outputs: &[ValueId]) -> String {
        let stored = |node| outputs.iter().any(|id| self.plan.values[id.index()].node == node);
        let computes = |node| step.ops.iter().any(|op| op.node == node);
        let mut inside: Vec<_> = self.names.iter().collect();
        inside.retain(|&(&node, _)| {
            let (node, moved) = (node, self.moved(node));
            (computes(node) || computes(moved)) && !stored(node) && !stored(moved)
        });
        inside.sort_unstable_by_key(|&(&node, _)| node);
        let names: Vec<String> =
            inside.into_iter().flat_map(|(_, names)| names).map(|name| quoted(name)).collect();
        if names.is_empty() { String::new() } else { format!(", with {} inside,", names.join(" ")) }
    }

    /// The node whose elements `node` has, perhaps in another order.
    fn moved(&self, mut node: NodeId) -> NodeId {
        while let Some(Node { op: Op::Move { .. }, inputs, .. }) = self.graph.get(node) {
            node = inputs[0];
        }
        node
    }

    /// The buffers that the step's results take, and the values that had them before.
    fn memory(&self, at: usize, outputs: &[ValueId]) -> Option<String> {
        let reused: Vec<String> = outputs
            .iter()
            .filter_map(|output| {
                let Home::Slot(slot) = self.plan.values[output.index()].home else { return None };
                let of_slot = &self.tenants[slot];
                let ended = of_slot.partition_point(|&(last, _)| last < at);
                let (_, before) = of_slot[..ended].last()?;
                Some(format!("reuses the buffer of v{}", before.0))
            })
            .collect();
        (!reused.is_empty()).then(|| reused.join(", "))
    }

    /// The value that a step reads, with type and shape if no step makes it.
    fn read(&self, id: ValueId) -> String {
        let value = &self.plan.values[id.index()];
        match value.home {
            Home::Upload { .. } | Home::Resident(_) => {
                format!("v{} {}{}", id.0, value.dtype, value.shape)
            }
            Home::Slot(_) | Home::Kept(_) => format!("v{}", id.0),
        }
    }

    /// The number of a value, and its names.
    fn name(&self, id: ValueId) -> String {
        let names = self.names.get(&self.plan.values[id.index()].node);
        let names = names.into_iter().flatten().map(|name| quoted(name));
        std::iter::once(format!("v{}", id.0)).chain(names).collect::<Vec<_>>().join(" ")
    }

    fn value(&self, id: ValueId) -> String {
        let value = &self.plan.values[id.index()];
        let size = bytes(value.bytes(self.limits));
        let layout = if value.channels_last { ", channels last" } else { "" };
        format!("{} {}{} ({size}{layout})", self.name(id), value.dtype, value.shape)
    }
}

/// The texts that `of` gives for the values.
fn list(values: &[ValueId], of: impl Fn(ValueId) -> String) -> String {
    values.iter().map(|&value| of(value)).collect::<Vec<_>>().join(", ")
}
