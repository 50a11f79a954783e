//! The functions that read four neighbours of an operand.

use super::Product;
use super::reading::{Reading, lane_axis};
use crate::codegen::kernel::Kernel;
use crate::codegen::kernel::lanes::{self, Held};
use crate::codegen::kernel::template::indent;

impl Product {
    /// The function that reads four neighbours of one side, or eight halves as they are; at the end of k, zeros
    /// past it.
    pub fn load(
        &self,
        kernel: &mut Kernel<'_>,
        reading: Reading,
        wide: &[bool],
        end: bool,
    ) -> String {
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
            (
                String::new(),
                kernel.stored_four(operands[0], &format!("position{} / 8u", operands[0])),
            )
        } else {
            let (loads, function, value) = self.evaluate(kernel, &reading, wide, cut);
            text.push_str(&loads);
            (function, value)
        };
        let value = if cut && along_k {
            format!("select(vec4<{ty}>(), {value}, inside == {four})")
        } else {
            value
        };
        // Both variants share the prologue.
        let function = if end { String::new() } else { function };
        let name = format!("{}{}", side.load(), if end { "_end" } else { "" });
        let positions: String = operands.iter().map(|o| format!(", position{o}: u32")).collect();
        let body = indent(&format!("{text}return {value};"));
        format!("{function}\nfn {name}(outer: u32, k: u32{positions}) -> vec4<{ty}> {{\n{body}}}\n")
    }

    /// Statements that load four neighbours of all operands of a side, those past the last one inside by it if
    /// they are `cut`; the prologue; and its calls.
    fn evaluate(
        &self,
        kernel: &mut Kernel<'_>,
        reading: &Reading,
        wide: &[bool],
        cut: bool,
    ) -> (String, String, String) {
        let function =
            kernel.function(reading.side.prologue(), &[self.prologue(reading.side)], None);
        let mut text = String::new();
        let mut held = vec![Held::One; kernel.step.operands.len()];
        for &operand in &function.operands {
            let view = &kernel.step.operands[operand].view;
            let stride = view.strides[lane_axis(reading, view)];
            let at = format!("position{operand}");
            let (line, what) = if cut && stride != 0 {
                (lanes::load_inside(kernel, operand, &at, stride), Held::Four)
            } else {
                lanes::load(kernel, operand, &at, stride, wide[operand])
            };
            held[operand] = what;
            text.push_str(&line);
        }
        let calls = lanes::calls(&function, "", |o| held[o]).join(", ");
        let value = format!("vec4<{}>({calls})", self.ty_name());
        (text, function.text, value)
    }
}
