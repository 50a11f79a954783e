//! The layout of operands in memory, and the functions that read four neighbours of an operand.

use super::collapsed::Product;
use super::reading::{Factor, Reading, axes};
use crate::base::dtype::DType;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::lanes::{self, Loaded};
use crate::codegen::kernel::results::MatrixResults;
use crate::codegen::kernel::template::indent;
use crate::plan::{OperandSource, Space, StepOperand};

impl Product {
    /// The function that reads four neighbours of one side, or eight halves as they are; at the end of k, zeros
    /// past it.
    pub fn load(&self, kernel: &mut KernelBuilder<'_>, reading: Reading, end: bool) -> String {
        let Reading { side, along_k, ragged, halves, .. } = reading;
        let [size, length] = self.sizes(side);
        let operands = kernel.operands_of(&[self.prologue(side)]);
        let ty = if halves { "u32" } else { self.ty_name() };
        let four = lanes::FOUR;
        let mut text = String::new();
        if end {
            let length = kernel.size(length);
            text += &format!("if k >= {length} {{\n    return vec4<{ty}>();\n}}\n");
        }
        let (lane, lanes, cut) = if along_k { ("k", length, end) } else { ("outer", size, ragged) };
        // Four neighbours from a multiple of four on are inside or outside together.
        let cut = cut && !lanes.is_multiple_of(4);
        if cut {
            let last = kernel.size(lanes.saturating_sub(1));
            text += &format!("let inside = min({four}, vec4<u32>({last} - {lane}));\n");
        }
        let (function, value) = if halves {
            let at = format!("position{} / 8u", operands[0]);
            (String::new(), kernel.stored_four(operands[0], &at))
        } else {
            let function = kernel.function(&side.prologue(), &[self.prologue(side)], None);
            let mut loaded = Loaded::default();
            for &operand in &function.operands {
                let view = &kernel.step.operands[operand].view;
                let stride = view.strides[reading.axes(view)[0]];
                let at = format!("position{operand}");
                // An element past the last one inside is read as that one.
                if cut && stride != 0 {
                    loaded.load_inside(kernel, operand, &at, stride);
                } else {
                    loaded.load(kernel, operand, &at, stride);
                }
            }
            let calls = loaded.calls(&function, "").join(", ");
            text += &loaded.text;
            (function.text, format!("vec4<{ty}>({calls})"))
        };
        let value = if cut && along_k {
            format!("select(vec4<{ty}>(), {value}, inside == {four})")
        } else {
            value
        };
        // Both variants share the prologue.
        let function = if end { String::new() } else { function };
        let name = format!("load_{}{}", side.name(), if end { "_end" } else { "" });
        let positions: String = operands.iter().map(|o| format!(", position{o}: u32")).collect();
        let body = indent(&format!("{text}return {value};"));
        format!("{function}\nfn {name}(outer: u32, k: u32{positions}) -> vec4<{ty}> {{\n{body}}}\n")
    }

    /// The best walk of neighbouring threads over `side`, in tiles of `outer` by `bk`.
    pub fn reading(
        &self,
        kernel: &KernelBuilder<'_>,
        side: Factor,
        outer: usize,
        bk: usize,
    ) -> Reading {
        if side == Factor::W && self.windows.is_some() {
            let ragged = !self.n.is_multiple_of(outer);
            let ragged_k = !self.k.is_multiple_of(bk);
            return Reading { side, along_k: false, ragged, ragged_k, halves: false };
        }
        let views = kernel.operands_of(&[self.prologue(side)]).into_iter();
        let mut steps = views.map(|o| {
            let view = &kernel.step.operands[o].view;
            let along = |axis: usize| {
                if view.dims[axis] == 1 { 0 } else { view.strides[axis].unsigned_abs() }
            };
            let [outer, k] = axes(side, view);
            (along(k), along(outer))
        });
        let first = steps.find(|&pair| pair != (0, 0));
        let along_k = first.is_none_or(|(k, o)| k != 0 && (o == 0 || k <= o));
        let [size, length] = self.sizes(side);
        let ragged_k = !length.is_multiple_of(bk) || length == 0;
        // Rows outside cost nothing in the loop, so that one text does for all numbers of rows.
        let ragged = (side == Factor::X && along_k) || !size.is_multiple_of(outer);
        Reading { side, along_k, ragged, ragged_k, halves: false }
    }

    /// True if the side of `reading` is nothing but halves of one operand that lie in aligned eights.
    pub fn is_halves(&self, kernel: &KernelBuilder<'_>, reading: &Reading) -> bool {
        let step = kernel.step;
        if reading.side == Factor::W && self.windows.is_some() {
            return false;
        }
        let Some(operand) = step.loaded(self.prologue(reading.side)) else { return false };
        let &StepOperand { source, dtype, ref view, clamp, .. } = operand;
        let [lane, other] = reading.axes(view);
        let rank = view.dims.len();
        let others = view.strides[..rank - 2].iter().chain([&view.strides[other]]);
        let eights = view.strides[lane] == 1
            && view.offset % 8 == 0
            && view.dims[lane].is_multiple_of(8)
            && others.into_iter().all(|stride| stride % 8 == 0);
        let alone = step.operands.iter().filter(|o| o.source == source).count() == 1;
        let stored =
            matches!(source, OperandSource::Value(_)) && dtype == DType::F16 && kernel.limits.f16;
        stored && eights && alone && !clamp && !view.dims.contains(&0)
    }

    /// True for each operand of the step whose value is bound in fours.
    pub fn wide(&self, kernel: &KernelBuilder<'_>, readings: &[Reading]) -> Vec<bool> {
        let operands = &kernel.step.operands;
        let alone = |o: usize| {
            let view = &operands[o].view;
            let side = match operands[o].space {
                Space::X => Factor::X,
                Space::W if self.windows.is_some() => return false,
                Space::W => Factor::W,
                _ => return MatrixResults::is_wide(view),
            };
            let Some(reading) = readings.iter().find(|r| r.side == side) else { return false };
            let [lane, other] = reading.axes(view);
            lanes::is_wide_along(view, lane, other)
        };
        self.results.wide(kernel, alone)
    }
}
