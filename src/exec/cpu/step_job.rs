//! A step of a run, with its cache, its operands and the values computed before it.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::failures::Failures;
use super::operands::BoundInput;
use super::step_cache::{ExprHole, StepCache};
use super::tape::Tape;
use crate::base::shape::View;
use crate::exec::HostBuffer;
use crate::expr::Ref;
use crate::ops::CpuFunction;
use crate::plan::{Home, OperandSource, Plan, Space, Step, StepOperand, ValueId};

/// One step of a run.
pub(super) struct StepJob<'a> {
    pub plan: &'a Plan,
    pub step: &'a Step,
    pub cache: &'a StepCache,
    pub values: &'a [Option<Arc<HostBuffer>>],
    pub functions: &'a [CpuFunction],
    pub failures: &'a Failures,
}

impl<'a> StepJob<'a> {
    /// Binds the operands that run over `space`, by position among all operands.
    pub fn inputs(&self, space: Space) -> Vec<Option<BoundInput<'a>>> {
        self.inputs_through(space, Cow::Borrowed)
    }

    /// As [`inputs`](Self::inputs), with each operand read through the view that `view` returns for its own.
    pub fn inputs_through(
        &self,
        space: Space,
        view: impl Fn(&'a View) -> Cow<'a, View>,
    ) -> Vec<Option<BoundInput<'a>>> {
        self.bind(space, &view)
    }

    /// See [`inputs_through`](Self::inputs_through). This is compiled once.
    fn bind(
        &self,
        space: Space,
        view: &dyn Fn(&'a View) -> Cow<'a, View>,
    ) -> Vec<Option<BoundInput<'a>>> {
        let bind = |operand: &'a StepOperand| {
            let value =
                operand.source.value().and_then(|value| self.values[value.index()].as_deref());
            match operand.source {
                OperandSource::Failures => Some(BoundInput::Failures(self.failures)),
                OperandSource::Table(_) => value.map(BoundInput::table),
                OperandSource::Value(_) | OperandSource::Iota => (operand.space == space)
                    .then(|| BoundInput::bind(operand, &view(&operand.view), value)),
            }
        };
        self.step.operands.iter().map(bind).collect()
    }

    /// The tape of the expressions `roots` in `hole`, for operands bound as `inputs`.
    pub fn tape(
        &self,
        hole: ExprHole,
        roots: &[Ref],
        inputs: &[Option<BoundInput<'_>>],
    ) -> &'a Tape {
        let Step { expr, scalars, .. } = self.step;
        self.cache.tape(hole, || Tape::compile(expr, roots, scalars, inputs))
    }

    /// The value that `operand` reads, if it reads one, with its data.
    pub fn value_of(&self, operand: &StepOperand) -> Option<(ValueId, &'a HostBuffer)> {
        let OperandSource::Value(value) = operand.source else { return None };
        Some((value, self.values[value.index()].as_deref()?))
    }

    /// The operand that `root` only loads, if it reads a value, with this value and its data.
    pub fn loaded(&self, root: Ref) -> Option<(&'a StepOperand, ValueId, &'a HostBuffer)> {
        let operand = self.step.loaded(root)?;
        let (value, buffer) = self.value_of(operand)?;
        Some((operand, value, buffer))
    }

    /// Returns whether `value` is a resident, which stays from run to run.
    pub fn is_resident(&self, value: ValueId) -> bool {
        matches!(self.plan.values[value.index()].home, Home::Resident(_))
    }

    /// The expressions of the outputs.
    pub fn roots(&self) -> SmallVec<[Ref; 2]> {
        self.step.outputs.iter().map(|output| output.root).collect()
    }
}
