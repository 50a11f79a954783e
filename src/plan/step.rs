//! A step of a plan: one fused kernel, as a value that prints.

use smallvec::SmallVec;

use super::forms::Form;
use super::step_parts::{
    Border, Join, Lookup, OperandSource, StepContext, StepOperand, StepOutput,
};
use super::target::Target;
use super::value::{Value, ValueId};
use crate::base::dtype::Scalar;
use crate::base::place::Place;
use crate::cost::Backend;
use crate::expr::{Expr, Ref};
use crate::graph::NodeId;

/// One kernel: a form, with expressions in its holes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// The operations that it computes, in the order recorded.
    pub ops: Vec<StepOp>,
    /// The place at which the last of them was recorded.
    pub place: Place,
    pub form: Form,
    /// The arena of every expression in this step: prologues and outputs.
    pub expr: Expr,
    /// The operands that [`ExprNode::Load`](crate::expr::ExprNode) refers to.
    pub operands: Vec<StepOperand>,
    /// The numbers that [`ExprNode::Scalar`](crate::expr::ExprNode) refers to.
    pub scalars: Vec<Scalar>,
    /// The look-ups among the expressions.
    pub lookups: Vec<Lookup>,
    /// The borders among the expressions.
    pub borders: Vec<Border>,
    /// The joined values among the expressions.
    pub joins: Vec<Join>,
    /// At least one; all are written for every element of the form's result.
    pub outputs: SmallVec<[StepOutput; 1]>,
    /// Memory of 32-bit words that only this step uses, for partial results.
    pub scratch: Option<Scratch>,
    pub cost: Cost,
}

impl Step {
    /// The step's name in errors, in `explain` and in GPU debuggers: `matmul+add+relu`.
    pub fn label(&self) -> String {
        self.ops.iter().map(|op| op.name).collect::<Vec<_>>().join("+")
    }

    /// The distinct values that the step reads, in order of first use.
    pub fn reads(&self) -> SmallVec<[ValueId; 8]> {
        let mut reads = SmallVec::new();
        for operand in &self.operands {
            if let Some(value) = operand.source.value()
                && !reads.contains(&value)
            {
                reads.push(value);
            }
        }
        reads
    }

    /// The operand that `root` only loads.
    pub fn loaded(&self, root: Ref) -> Option<&StepOperand> {
        Some(&self.operands[self.expr.loaded(root)?])
    }

    /// True if the step can fail.
    pub fn can_fail(&self) -> bool {
        self.operands.iter().any(|operand| operand.source == OperandSource::Failures)
    }

    /// The contents of the step around its form; `values` are those of its plan.
    pub fn context<'a>(&'a self, values: &'a [Value]) -> StepContext<'a> {
        let Self { expr, operands, scalars, outputs, lookups, borders, joins, .. } = self;
        StepContext { expr, operands, scalars, outputs, lookups, borders, joins, values }
    }

    /// Lets the form find what its expressions are. On a GPU it also chooses its schedule, and asks for the memory of
    /// partial results.
    pub fn tune(&mut self, values: &[Value], target: &Target) {
        let Self { form, expr, operands, scalars, outputs, lookups, borders, joins, .. } = self;
        let context =
            StepContext { expr, operands, scalars, outputs, lookups, borders, joins, values };
        form.kernel_mut().analyse(&context);
        if target.backend == Backend::Gpu {
            form.kernel_mut().tune(&context, target);
            self.scratch = Scratch::of(form, &context);
        }
    }

    /// The number of GPU dispatches that the step takes.
    pub fn dispatches(&self) -> u64 {
        if self.is_empty() { 0 } else { self.form.kernel().dispatches(self.scratch.is_some()) }
    }

    /// The points of the largest space that the step iterates over, with its partial results.
    pub fn points(&self) -> u64 {
        self.form.kernel().points().max(self.scratch.map_or(0, |scratch| scratch.words))
    }

    /// True if the step has nothing to write.
    pub fn is_empty(&self) -> bool {
        self.outputs[0].view.dims.contains(&0)
    }
}

/// An operation of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepOp {
    /// The recorded operation that it is, or is a part of.
    pub node: NodeId,
    pub name: &'static str,
}

/// Partial results of a form in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scratch {
    pub words: u64,
    /// The buffer, by position in [`Plan::slots`](super::Plan).
    pub slot: usize,
}

impl Scratch {
    /// The scratch memory of a form with its schedule, in the first slot.
    pub fn of(form: &Form, context: &StepContext<'_>) -> Option<Self> {
        let words = form.kernel().scratch_words(context) as u64;
        (words > 0).then_some(Self { words, slot: 0 })
    }
}

/// The work of a step and its predicted time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub flops: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Predicted seconds.
    pub seconds: SideSeconds,
}

/// The seconds of a step on either side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SideSeconds {
    pub cpu: f64,
    pub gpu: f64,
}

impl SideSeconds {
    pub fn on(self, side: Backend) -> f64 {
        match side {
            Backend::Cpu => self.cpu,
            Backend::Gpu => self.gpu,
        }
    }
}

/// The sum, saturating: a value that is only a view may count more bytes than there are.
pub(crate) fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}
