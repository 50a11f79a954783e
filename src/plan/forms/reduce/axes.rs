//! The axes of a reduction, collapsed.

use crate::expr::Ref;
use crate::plan::forms::axes::CollapsedAxes;
use crate::plan::step_parts::StepContext;

/// The reduced and the remaining axes, with the index maps of operands and outputs.
pub(crate) struct ReduceAxes {
    pub inner: CollapsedAxes,
    pub outer: CollapsedAxes,
    /// Operands of the prologue: the maps of `inner`, and the first maps of `outer`.
    pub main: Vec<usize>,
    /// Operands of the outputs: the next maps of `outer`. The outputs' own are its last.
    pub out: Vec<usize>,
}

impl ReduceAxes {
    pub fn new(outer: &[usize], inner: &[usize], prologue: Ref, context: &StepContext<'_>) -> Self {
        let main = context.operands_of(&[prologue]);
        let out = context.operands_of(&context.roots());
        let rank = outer.len();
        let strides = |&o: &usize| &context.operands[o].view.strides[..];
        let main_outer = main.iter().map(|o| &strides(o)[..rank]);
        let outputs = context.outputs.iter().map(|o| &o.view.strides[..]);
        let all: Vec<&[i64]> = main_outer.chain(out.iter().map(strides)).chain(outputs).collect();
        let outer = CollapsedAxes::collapse(outer, &all);
        let all: Vec<&[i64]> = main.iter().map(|o| &strides(o)[rank..]).collect();
        let inner = CollapsedAxes::collapse(inner, &all);
        Self { inner, outer, main, out }
    }
}
