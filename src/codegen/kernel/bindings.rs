//! The storage buffers that a kernel binds.

use super::builder::{Buffer, BufferElement, KernelBuilder, UNBOUND};
use crate::base::dtype::DType;
use crate::codegen::BufferRef;
use crate::plan::{OperandSource, StepOperand, ValueId};

impl KernelBuilder<'_> {
    /// Binds the outputs, in fours where `wide` says so.
    pub fn bind_outputs(&mut self, wide: impl Fn(usize) -> bool) {
        for (index, output) in self.step.outputs.iter().enumerate() {
            self.bind(BufferRef::Value(output.value), output.dtype, true, wide(index));
        }
    }

    /// Binds the values of `operands`, in fours where `wide` says so; it must say the same of all operands of one
    /// value.
    pub fn bind_operands(&mut self, operands: &[usize], wide: impl Fn(usize) -> bool) {
        for &index in operands {
            let operand = &self.step.operands[index];
            if let OperandSource::Value(value) = operand.source
                && !self.is_void(operand)
            {
                self.bind(BufferRef::Value(value), operand.dtype, false, wide(index));
            }
        }
    }

    /// Binds the step's scratch memory and names it.
    pub fn bind_scratch(&mut self, writes: bool) -> String {
        debug_assert!(self.step.scratch.is_some(), "{} has no scratch memory", self.step.label());
        let Some(scratch) = self.step.scratch else { return UNBOUND.into() };
        let slot = scratch.slot;
        self.bind(BufferRef::Slot(slot), DType::U32, writes, false);
        self.buffer(BufferRef::Slot(slot))
    }

    /// Binds the value of `operand` as fours of 32-bit words, of any element type.
    pub fn bind_words(&mut self, operand: usize) {
        if let OperandSource::Value(value) = self.step.operands[operand].source {
            self.bind(BufferRef::Value(value), DType::U32, false, true);
        }
    }

    pub(super) fn bind(&mut self, at: BufferRef, dtype: DType, writes: bool, wide: bool) {
        if self.buffers.iter().all(|b| b.at != at) {
            let scalar = self.stored(dtype);
            let element =
                if wide { BufferElement::Four(scalar) } else { BufferElement::One(scalar) };
            self.buffers.push(Buffer { at, element, writes });
        }
    }

    /// True if the buffer of `value` holds its elements rounded up to a multiple of `unit`: buffers
    /// are no smaller than 256 bytes and otherwise multiples of that, but for the largest.
    pub fn can_round_up(&self, value: ValueId, unit: usize) -> bool {
        let value = &self.plan.values[value.index()];
        let elements = value.shape.elements().next_multiple_of(unit) as u64;
        elements.saturating_mul(self.limits.stored(value.dtype).bytes())
            <= self.limits.binding_bytes
    }

    /// The WGSL type that holds `dtype` in memory.
    pub fn stored(&self, dtype: DType) -> &'static str {
        self.limits.stored(dtype).wgsl()
    }

    pub(super) fn buffer(&self, at: BufferRef) -> String {
        let index = self.buffers.iter().position(|b| b.at == at);
        debug_assert!(index.is_some(), "{at:?} is not bound");
        index.map_or_else(|| UNBOUND.into(), |index| format!("buffer{index}"))
    }

    /// True if the bound elements are in fours.
    pub(super) fn is_in_fours(&self, at: BufferRef) -> bool {
        self.buffers.iter().any(|b| b.at == at && matches!(b.element, BufferElement::Four(_)))
    }

    /// True if `operand` is a value that is bound in fours.
    pub fn is_read_in_fours(&self, operand: usize) -> bool {
        let source = self.step.operands[operand].source;
        matches!(source, OperandSource::Value(value) if self.is_in_fours(BufferRef::Value(value)))
    }

    /// The element of the bound buffer, at the index given as text, whether or not it is in fours.
    pub(super) fn element(&self, at: BufferRef, index: &str) -> String {
        let buffer = self.buffer(at);
        if self.is_in_fours(at) {
            return format!("{buffer}[({index}) / 4u][({index}) % 4u]");
        }
        format!("{buffer}[{index}]")
    }

    /// True if the operand's value has no elements, so that nothing can be read.
    pub(super) fn is_void(&self, operand: &StepOperand) -> bool {
        match operand.source {
            OperandSource::Value(value) => self.plan.values[value.index()].shape.elements() == 0,
            OperandSource::Iota | OperandSource::Table(_) | OperandSource::Failures => false,
        }
    }
}
