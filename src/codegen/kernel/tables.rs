//! Operands that a kernel has as a whole: tables, from which generated functions fetch, and the run's failures.

use super::bindings::{Buffer, Element};
use super::{Kernel, UNBOUND};
use crate::codegen::BufferRef;
use crate::codegen::kernel::template::indent;
use crate::expr::wgsl::type_name;
use crate::plan::{Operand, Source, ValueId};

impl Kernel<'_> {
    /// Binds the table `operand` in fours.
    pub fn bind_fours(&mut self, operand: usize) {
        let Operand { source, dtype, .. } = self.step.operands[operand];
        if let Source::Table(value) = source {
            self.bind(BufferRef::Value(value), dtype, false, true);
            self.fours.insert(operand);
        }
    }

    /// Binds the table `operand`, in fours or in elements, and names its buffer.
    pub fn bind_table(&mut self, operand: usize, wide: bool) -> String {
        let Operand { source, dtype, .. } = self.step.operands[operand];
        let Source::Table(value) = source else { return UNBOUND.into() };
        self.bind(BufferRef::Value(value), dtype, false, wide);
        self.buffer(BufferRef::Value(value))
    }

    /// Binds the whole operands that functions use, and makes the functions that those call.
    pub(super) fn bind_whole(&mut self) -> String {
        let mut text = String::new();
        for operand in std::mem::take(&mut self.fours) {
            text.push_str(&self.fetch_fours(operand));
        }
        for operand in std::mem::take(&mut self.whole) {
            let Operand { source, dtype, .. } = self.step.operands[operand];
            match source {
                Source::Table(value) => {
                    if self.plan.values[value.index()].shape.elements() > 0 {
                        self.bind(BufferRef::Value(value), dtype, false, false);
                    }
                    text.push_str(&self.fetch(operand, value));
                }
                Source::Failures => {
                    self.buffers.push(Buffer {
                        at: BufferRef::Failures,
                        element: Element::Atomic,
                        writes: true,
                    });
                    text.push_str(&self.fail());
                }
                Source::Value(_) | Source::Iota => {}
            }
        }
        text
    }

    /// Lets a thread keep its failures, which are all of one site, until it is done, where `late`: loads that follow a
    /// check then need not wait for it.
    pub fn tells_late(&mut self, late: bool) {
        self.tells_late = late;
    }

    /// The last statement of a kernel that may [tell late](Self::tells_late).
    pub fn tell(&self) -> &'static str {
        if self.tells_late { "tell();\n" } else { "" }
    }

    /// The function that notes a failure.
    fn fail(&self) -> String {
        let buffer = self.buffer(BufferRef::Failures);
        if !self.tells_late {
            return format!(
                "\nfn fail(site: u32, at: u32) {{\n    atomicMax(&{buffer}[site], ~at);\n}}\n"
            );
        }
        format!(
            "\nvar<private> failed_site: u32;\nvar<private> failed: u32;\n\n\
             fn fail(site: u32, at: u32) {{\n    failed_site = site;\n    failed = max(failed, ~at);\n}}\n\n\
             fn tell() {{\n    if failed > 0u {{\n        atomicMax(&{buffer}[failed_site], failed);\n    }}\n}}\n"
        )
    }

    /// The function that fetches an element of the table `operand`.
    fn fetch(&mut self, operand: usize, value: ValueId) -> String {
        let (dtype, elements) =
            (self.step.operands[operand].dtype, self.plan.values[value.index()].shape.elements());
        let ty = type_name(dtype.lane());
        let body = if elements == 0 {
            format!("return {ty}(0);")
        } else {
            let last = self.size(elements - 1);
            let at = BufferRef::Value(value);
            let place = if self.is_in_fours(at) { "[at / 4u][at % 4u]" } else { "[at]" };
            let element = self.loaded(dtype, &format!("{}{place}", self.buffer(at)));
            format!("let at = min(position, {last});\nreturn {element};")
        };
        format!("\nfn fetch{operand}(position: u32) -> {ty} {{\n{}}}\n", indent(&body))
    }

    /// The function that fetches four elements of the table `operand` from a position on that is a multiple of four.
    fn fetch_fours(&mut self, operand: usize) -> String {
        let Operand { source, dtype, .. } = self.step.operands[operand];
        let Source::Table(value) = source else { return String::new() };
        let ty = type_name(dtype.lane());
        let last = self.size(self.plan.values[value.index()].shape.elements().saturating_sub(1));
        let element =
            format!("{}[min(position, {last}) / 4u]", self.buffer(BufferRef::Value(value)));
        let element = self.loaded_quad(dtype, element);
        format!(
            "\nfn fetch{operand}_fours(position: u32) -> vec4<{ty}> {{\n    return {element};\n}}\n"
        )
    }
}
