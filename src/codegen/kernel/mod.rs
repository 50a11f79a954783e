//! The parts of every generated kernel: parameters, bindings, loads, stores and functions.

mod bindings;
mod elements;
mod function;
pub(super) mod lanes;
mod params;
mod positions;
pub(super) mod results;
pub(super) mod template;

use std::collections::BTreeSet;

use self::bindings::{Buffer, BufferElement};
pub(super) use self::function::KernelFunction;
pub(super) use self::params::WORKGROUP;
use self::params::{GRID, grid};
pub(super) use self::positions::{OuterMaps, passed};
use self::template::{Holes, fill, holes};
use super::{Binding, Dispatch};
use crate::cost::Limits;
use crate::expr::{Ref, wgsl};
use crate::plan::{Plan, Step};

/// Threads of a workgroup, except where a template says otherwise.
pub(super) const THREADS: usize = 256;

/// Stands for a missing binding: a text with it does not compile, which is an error for the user, where another
/// buffer's name would be a wrong result.
pub(super) const UNBOUND: &str = "unbound";

/// A kernel in the making.
pub(super) struct Kernel<'a> {
    pub plan: &'a Plan,
    pub step: &'a Step,
    pub limits: &'a Limits,
    params: Vec<u32>,
    buffers: Vec<Buffer>,
    helpers: BTreeSet<&'static str>,
    /// Operands that are there as a whole.
    whole: BTreeSet<usize>,
    /// Tables that are fetched from in fours.
    fours: BTreeSet<usize>,
    /// WGSL extensions besides those that the buffers ask for.
    extensions: BTreeSet<&'static str>,
    /// True if a thread keeps its failures until it is done.
    tells_late: bool,
}

impl<'a> Kernel<'a> {
    pub fn new(plan: &'a Plan, step: &'a Step, limits: &'a Limits) -> Self {
        Self {
            plan,
            step,
            limits,
            params: Vec::new(),
            buffers: Vec::new(),
            helpers: BTreeSet::new(),
            whole: BTreeSet::new(),
            fours: BTreeSet::new(),
            extensions: BTreeSet::new(),
            tells_late: false,
        }
    }

    pub fn needs(&mut self, helper: &'static str) {
        self.helpers.insert(helper);
    }

    pub fn enable(&mut self, extension: &'static str) {
        self.extensions.insert(extension);
    }

    /// The operands that `roots` read, in ascending order.
    pub fn operands_of(&self, roots: &[Ref]) -> Vec<usize> {
        self.step.parts(&self.plan.values).operands_of(roots)
    }

    /// The roots of all outputs.
    pub fn output_roots(&self) -> Vec<Ref> {
        self.step.outputs.iter().map(|o| o.root).collect()
    }

    /// Fills `template`, and shares `groups` workgroups out to a grid. The hole `prelude` stands for all that was bound
    /// and needed, `grid` for the parameters of `main` that number workgroups, `workgroup` for the number.
    pub fn dispatch(
        mut self,
        template: &str,
        holes: &Holes,
        phase: &str,
        groups: usize,
    ) -> Dispatch {
        let whole = self.bind_whole();
        self.params.resize(self.params.len().next_multiple_of(4).max(4), 0);
        let mut all = holes! { prelude: self.prelude() + &whole, grid: GRID, workgroup: WORKGROUP };
        all.extend_from_slice(holes);
        let buffers = self.buffers.iter().map(|b| Binding { buffer: b.at, writes: b.writes });
        Dispatch {
            label: format!("{}{phase}", self.step.label()),
            wgsl: fill(template, &all),
            own: None,
            buffers: buffers.collect(),
            params: self.params,
            groups: grid(groups, self.limits.groups),
        }
    }

    fn prelude(&self) -> String {
        let mut text = String::new();
        let is_half = |b: &Buffer| {
            matches!(b.element, BufferElement::One("f16") | BufferElement::Four("f16"))
        };
        let halves = self.buffers.iter().any(is_half);
        let asked_for = self.extensions.iter().copied().chain(halves.then_some("f16"));
        for extension in asked_for.collect::<BTreeSet<_>>() {
            text += &format!("enable {extension};\n\n");
        }
        let quads = self.params.len() / 4;
        text += &format!(
            "struct Params {{\n    v: array<vec4<u32>, {quads}>,\n}}\n\
             @group(0) @binding(0) var<uniform> params: Params;\n"
        );
        for (index, Buffer { element, writes, .. }) in self.buffers.iter().enumerate() {
            let access = if *writes { "read_write" } else { "read" };
            let binding = index + 1;
            text += &format!(
                "@group(0) @binding({binding}) \
                 var<storage, {access}> buffer{index}: array<{element}>;\n"
            );
        }
        let helpers = wgsl::helpers(&self.helpers, self.limits.int64);
        if !helpers.is_empty() {
            text += &format!("\n{helpers}\n");
        }
        text
    }
}
