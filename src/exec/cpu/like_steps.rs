//! Like steps, which differ only in the values that they read and write, and in where their elements begin there. The steps
//! of a recurrent layer are alike. They share a cache, which the first of them fills.

use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::step_cache::StepCache;
use crate::plan::{Home, OperandSource, Plan, Step, StepOperand, StepOutput, Value};

/// The caches of the steps of `plan`, in order.
pub(super) fn caches(plan: &Plan) -> Vec<Arc<StepCache>> {
    let mut known = HashMap::<StepKind<'_>, Arc<StepCache>>::with_capacity(plan.steps.len());
    let cache =
        |step| Arc::clone(known.entry(StepKind { step, values: &plan.values }).or_default());
    plan.steps.iter().map(cache).collect()
}

/// All of a step that its cache depends on.
struct StepKind<'p> {
    step: &'p Step,
    values: &'p [Value],
}

impl<'p> StepKind<'p> {
    fn operands(&self) -> impl Iterator<Item = impl PartialEq + Hash + use<'p>> + use<'p> {
        let values = self.values;
        self.step.operands.iter().map(|operand| {
            let StepOperand { source, dtype, space, ref view, clamp } = *operand;
            let value = source.value().map(|value| {
                let value = &values[value.index()];
                (value.shape.elements(), matches!(value.home, Home::Resident(_)))
            });
            // Counted positions are constants of the step. Whether an index is clamped depends on where the elements begin.
            let is_placed = clamp || source == OperandSource::Iota;
            let offset = is_placed.then_some(view.offset);
            let lanes = (&view.dims, &view.strides, offset, clamp);
            (discriminant(&source), value, dtype, space, lanes)
        })
    }

    fn outputs(&self) -> impl Iterator<Item = impl PartialEq + use<'p>> + use<'p> {
        let outputs = self.step.outputs.iter();
        outputs.map(|StepOutput { value: _, dtype, root, view }| (dtype, root, view))
    }

    /// The numbers of the expressions, by their bits: NaN equals itself.
    fn scalars(&self) -> impl Iterator<Item = u32> + use<'p> {
        self.step.scalars.iter().map(|scalar| scalar.lane_bits())
    }
}

impl Hash for StepKind<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.step.expr.hash(state);
        self.operands().for_each(|operand| operand.hash(state));
    }
}

impl PartialEq for StepKind<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.step, other.step);
        a.form == b.form
            && a.expr == b.expr
            && a.lookups == b.lookups
            && a.borders == b.borders
            && a.joins == b.joins
            && self.scalars().eq(other.scalars())
            && self.operands().eq(other.operands())
            && self.outputs().eq(other.outputs())
    }
}

impl Eq for StepKind<'_> {}
