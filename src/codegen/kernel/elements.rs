//! Loads and stores of elements, and fetches from whole tables: as memory holds them, and in the type of a lane.

use super::builder::{Buffer, BufferElement, KernelBuilder, UNBOUND};
use super::template::indent;
use crate::base::dtype::DType;
use crate::codegen::BufferRef;
use crate::expr::wgsl::type_name;
use crate::expr::{ExprNode, Unary};
use crate::plan::{OperandSource, StepOperand, ValueId};

impl KernelBuilder<'_> {
    /// The value of `operand` at the index given as text, in its lane type.
    pub fn load(&mut self, operand: usize, index: &str) -> String {
        let step = self.step;
        let operand = &step.operands[operand];
        let OperandSource::Value(value) = operand.source else {
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
        self.loaded_quad(self.step.operands[operand].dtype, self.stored_four(operand, quad))
    }

    /// The four at the position given as text of an operand that is bound in fours or as words, as memory holds it.
    pub fn stored_four(&self, operand: usize, at: &str) -> String {
        format!("{}[{at}]", self.buffer_of(operand))
    }

    /// The name of the buffer of `operand`.
    fn buffer_of(&self, operand: usize) -> String {
        let value = self.step.operands[operand].source.value();
        value.map_or_else(|| UNBOUND.into(), |value| self.buffer(BufferRef::Value(value)))
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
                if matches!(node, ExprNode::Unary(Unary::RoundF16, _)) {
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

impl KernelBuilder<'_> {
    /// Binds the table `operand` in fours, to be fetched from in fours.
    pub fn bind_fours(&mut self, operand: usize) {
        self.bind_table(operand, true);
        self.fours.insert(operand);
    }

    /// Binds the table `operand`, in fours or in elements, and names its buffer.
    pub fn bind_table(&mut self, operand: usize, wide: bool) -> String {
        let StepOperand { source, dtype, .. } = self.step.operands[operand];
        if let OperandSource::Table(value) = source {
            self.bind(BufferRef::Value(value), dtype, false, wide);
        }
        self.buffer_of(operand)
    }

    /// Binds the whole operands that functions use, and makes the functions that those call.
    pub(super) fn bind_whole(&mut self) -> String {
        let mut text = String::new();
        for operand in std::mem::take(&mut self.fours) {
            text.push_str(&self.fetch_fours(operand));
        }
        for operand in std::mem::take(&mut self.whole) {
            let StepOperand { source, dtype, .. } = self.step.operands[operand];
            match source {
                OperandSource::Table(value) => {
                    if self.plan.values[value.index()].shape.elements() > 0 {
                        self.bind(BufferRef::Value(value), dtype, false, false);
                    }
                    text.push_str(&self.fetch(operand, value));
                }
                OperandSource::Failures => {
                    self.buffers.push(Buffer {
                        at: BufferRef::Failures,
                        element: BufferElement::Atomic,
                        writes: true,
                    });
                    text.push_str(&self.fail());
                }
                OperandSource::Value(_) | OperandSource::Iota => {}
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
        let StepOperand { source, dtype, .. } = self.step.operands[operand];
        let OperandSource::Table(value) = source else { return String::new() };
        let ty = type_name(dtype.lane());
        let last = self.size(self.plan.values[value.index()].shape.elements().saturating_sub(1));
        let element = self.stored_four(operand, &format!("min(position, {last}) / 4u"));
        let element = self.loaded_quad(dtype, element);
        format!(
            "\nfn fetch{operand}_fours(position: u32) -> vec4<{ty}> {{\n    return {element};\n}}\n"
        )
    }
}
