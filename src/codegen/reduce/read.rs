//! Reads of the elements of a reduction: one by one or in fours.

use super::{Reduction, Texts};
use crate::codegen::kernel::Kernel;
use crate::codegen::kernel::lanes::{self, Held};
use crate::codegen::reduce::loops::Unit;
use crate::expr::wgsl::type_name;
use crate::plan::{ReduceLayout, ReduceSchedule, Source, Windows};

impl Reduction {
    /// The stride of a map of `inner` from one lane to the next.
    fn lane_stride(&self, map: usize) -> i64 {
        self.axes.inner.strides[map][self.axes.inner.rank() - 1]
    }

    /// True if an operand of the prologue is read in fours.
    pub(super) fn is_wide(&self, unit: Unit, operand: usize) -> bool {
        let map = self.axes.main.iter().position(|&o| o == operand);
        unit == Unit::Quad && map.is_some_and(|map| self.lane_stride(map) != 0)
    }

    /// Quads where neighbouring threads walk along a row, and all that varies there comes in fours.
    pub(super) fn unit(&self, kernel: &Kernel<'_>) -> Unit {
        let last = self.axes.inner.rank() - 1;
        let in_fours = |operand: usize| {
            let Some(map) = self.axes.main.iter().position(|&o| o == operand) else { return false };
            let view = &kernel.step.operands[operand].view;
            lanes::is_wide(view, self.lane_stride(map), &self.axes.inner.strides[map][..last])
                && (self.axes.outer.len() == 1
                    || self.axes.outer.strides[map].iter().all(|s| s % 4 == 0))
        };
        let operands: Vec<usize> = self.axes.main.iter().chain(&self.axes.out).copied().collect();
        let fits = |(map, &operand): (usize, &usize)| {
            let is_value = matches!(kernel.step.operands[operand].source, Source::Value(_));
            self.lane_stride(map) == 0
                || !is_value
                || lanes::binds_wide(kernel, &operands, operand, in_fours)
        };
        let quads = self.schedule.layout == ReduceLayout::Group
            && self.axes.inner.dims[last].is_multiple_of(4)
            && self.axes.main.iter().enumerate().all(fits);
        if quads { Unit::Quad } else { Unit::Value }
    }

    /// The texts that read one unit: its place along the outer axes is found once, in `main`.
    pub(super) fn read_elements(&self, kernel: &mut Kernel<'_>, unit: Unit) -> Texts {
        let step = kernel.step;
        let prologue = kernel.function("prologue", &[self.prologue], None);
        let (mut bases, outer) = kernel.coordinates("o", "result", &self.axes.outer.dims);
        let (mut element, inner) = match unit {
            Unit::Quad => {
                let (text, inner) = kernel.coordinates("c", "first", &self.axes.inner.dims);
                (format!("let first = i * 4u;\n{text}"), inner)
            }
            _ if self.is_written_out() => written_out("c", "i", &self.axes.inner.dims),
            _ => kernel.coordinates("c", "i", &self.axes.inner.dims),
        };
        let mut base_names = Vec::new();
        let mut held = vec![Held::One; step.operands.len()];
        for (map, &operand) in self.axes.main.iter().enumerate() {
            let start = kernel.param(step.operands[operand].view.offset);
            let base = kernel.index(&start, &self.axes.outer.strides[map], &outer);
            let name = format!("base{operand}");
            bases += &format!("let {name} = {base};\n");
            let at = kernel.index(&name, &self.axes.inner.strides[map], &inner);
            if unit == Unit::Quad {
                let (stride, wide) = (self.lane_stride(map), self.is_wide(unit, operand));
                let (load, what) = lanes::load(kernel, operand, &at, stride, wide);
                element.push_str(&load);
                held[operand] = what;
            } else {
                element += &format!("let x{operand} = {};\n", kernel.load(operand, &at));
            }
            base_names.push(name);
        }
        let value = if unit == Unit::Quad {
            let calls = lanes::calls(&prologue, "", |o| held[o]).join(", ");
            format!("{}({calls})", self.element_type(kernel, unit))
        } else {
            prologue.call("", |o| format!("x{o}"))
        };
        element += &format!("return {value};\n");
        let functions = prologue.text;
        Texts { functions, element, unit, bases, base_names, write: String::new() }
    }

    /// True if a thread takes the few elements of a window, which lie along several axes.
    pub(super) fn is_written_out(&self) -> bool {
        let ReduceSchedule { layout, parts, .. } = self.schedule;
        let by_one = layout == ReduceLayout::Thread && parts == 1;
        by_one
            && self.axes.inner.rank() > 1
            && (1..=Windows::WRITTEN_OUT).contains(&self.axes.inner.len())
    }

    pub(super) fn element_type(&self, kernel: &Kernel<'_>, unit: Unit) -> String {
        let ty = type_name(kernel.step.expr.ty(self.prologue));
        match unit {
            Unit::State => "State".to_string(),
            Unit::Value => ty.to_string(),
            Unit::Quad => format!("vec4<{ty}>"),
        }
    }
}

/// Statements that take the row-major position `position` apart by `dims`, which are in the text, and the names of the
/// coordinates.
fn written_out(prefix: &str, position: &str, dims: &[usize]) -> (String, Vec<String>) {
    let (mut text, mut after) = (String::new(), dims.iter().product::<usize>());
    let names: Vec<String> = (0..dims.len()).map(|axis| format!("{prefix}{axis}")).collect();
    for (name, &dim) in names.iter().zip(dims) {
        after /= dim;
        text += &format!("let {name} = {position} / {after}u % {dim}u;\n");
    }
    (text, names)
}
