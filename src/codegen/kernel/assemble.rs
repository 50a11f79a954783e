//! The last step of a kernel: its text around a template, its bindings and its grid.

use std::collections::BTreeSet;

use super::builder::{Buffer, BufferElement, KernelBuilder};
use super::params::{GRID, WORKGROUP, grid};
use super::template::{Holes, fill, holes};
use crate::codegen::{Binding, Dispatch};
use crate::expr::wgsl;

impl KernelBuilder<'_> {
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
            custom: None,
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
