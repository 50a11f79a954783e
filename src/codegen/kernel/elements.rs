//! Loads and stores of elements: as memory holds them, and in the type of a lane.

use super::{Kernel, UNBOUND};
use crate::base::dtype::DType;
use crate::codegen::BufferRef;
use crate::expr::wgsl::type_name;
use crate::expr::{Node, Unary};
use crate::plan::Source;

impl Kernel<'_> {
    /// The value of `operand` at the index given as text, in its lane type.
    pub fn load(&mut self, operand: usize, index: &str) -> String {
        let step = self.step;
        let operand = &step.operands[operand];
        let Source::Value(value) = operand.source else {
            return format!("i32({index})");
        };
        let ty = operand.dtype.lane();
        if self.is_void(operand) {
            return format!("{}(0)", type_name(ty));
        }
        let index = if operand.clamp {
            let last = self.plan.values[value.index()].shape.elements() as i64 - 1;
            let last = self.param(last);
            format!("clamp(i32({index}), 0, i32({last}))")
        } else {
            index.to_string()
        };
        self.loaded(operand.dtype, &self.element(BufferRef::Value(value), &index))
    }

    /// Four values of `operand`, at the quad of the index given as text.
    pub fn load_quad(&self, operand: usize, quad: &str) -> String {
        let operand = &self.step.operands[operand];
        let Source::Value(value) = operand.source else { return UNBOUND.into() };
        self.loaded_quad(operand.dtype, format!("{}[{quad}]", self.buffer(BufferRef::Value(value))))
    }

    /// The four at the position given as text of an operand that is bound in fours or as words, as memory holds it.
    pub fn stored_four(&self, operand: usize, at: &str) -> String {
        let Source::Value(value) = self.step.operands[operand].source else {
            return UNBOUND.into();
        };
        format!("{}[{at}]", self.buffer(BufferRef::Value(value)))
    }

    /// The number stored as `element`, in its lane type.
    pub fn loaded(&self, dtype: DType, element: &str) -> String {
        match dtype {
            DType::F16 if self.limits.f16 => format!("f32({element})"),
            DType::Bool => format!("({element} != 0u)"),
            _ => element.to_string(),
        }
    }

    /// The numbers stored as the four of `quad`, in their lane type.
    pub(super) fn loaded_quad(&self, dtype: DType, quad: String) -> String {
        match dtype {
            DType::F16 if self.limits.f16 => format!("vec4<f32>({quad})"),
            DType::Bool => format!("({quad} != vec4<u32>())"),
            _ => quad,
        }
    }

    /// A statement that stores `value`, of a lane type, in `output`.
    pub fn store(&mut self, output: usize, index: &str, value: &str) -> String {
        let element = self.element(BufferRef::Value(self.step.outputs[output].value), index);
        format!("{element} = {};\n", self.stored_value(output, value))
    }

    /// A statement that stores one lane of a quad in `output`.
    pub fn store_lane(&mut self, output: usize, quad: &str, lane: &str, value: &str) -> String {
        let buffer = self.buffer(BufferRef::Value(self.step.outputs[output].value));
        format!("{buffer}[{quad}].{lane} = {};\n", self.stored_value(output, value))
    }

    /// A statement that stores four values in `output`.
    pub fn store_quad(&mut self, output: usize, quad: &str, values: &[String; 4]) -> String {
        let step = self.step;
        let buffer = self.buffer(BufferRef::Value(step.outputs[output].value));
        let scalar = self.stored(step.outputs[output].dtype);
        let values = values.each_ref().map(|v| self.stored_value(output, v)).join(", ");
        format!("{buffer}[{quad}] = vec4<{scalar}>({values});\n")
    }

    /// `value`, of a lane type, as `output` stores it.
    pub fn stored_value(&mut self, output: usize, value: &str) -> String {
        let output = &self.step.outputs[output];
        match output.dtype {
            DType::F16 if self.limits.f16 => format!("f16({value})"),
            DType::F16 => {
                let node = self.step.expr.node(output.root);
                if matches!(node, Node::Unary(Unary::RoundF16, _)) {
                    return value.to_string();
                }
                self.needs("p_round_f16");
                format!("p_round_f16({value})")
            }
            DType::Bool => format!("select(0u, 1u, {value})"),
            _ => value.to_string(),
        }
    }
}
