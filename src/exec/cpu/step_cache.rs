//! The facts of steps that their first run finds. Steps that differ only in their values, and in where the elements of these
//! begin, share them.

use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use std::sync::{Arc, OnceLock};

use foldhash::{HashMap, HashMapExt};

use super::chain::Chain;
use super::tape::Tape;
use crate::exec::ArrangementKey;
use crate::plan::{Home, OperandSource, Plan, Step, StepOperand, StepOutput, Value};

/// A hole of a form, which an expression of the step fills.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExprHole {
    /// In front of the form. In a product, it is in front of the left operand; in an attention, in front of the
    /// queries.
    Before,
    /// In front of the right operand of a product, of the weights of sliding windows, or of the keys of an attention.
    Right,
    /// In front of the values of an attention.
    Values,
    /// In front of the mask of an attention.
    Scores,
    /// Behind the form. The only expression of a map is here too.
    After,
}

/// The facts that the first run of a step works out for all later ones. They depend on types, lengths and views of the
/// operands, and the plan fixes these, but not on where the elements begin.
#[derive(Debug, Default)]
pub(super) struct StepCache {
    /// Tapes by [`ExprHole`].
    tapes: [OnceLock<Tape>; 5],
    /// The operands of a short product, found in memory.
    prepared_product: OnceLock<Option<Box<PreparedProduct>>>,
    /// The epilogue as a chain of operations, if it is one.
    chain: OnceLock<Option<Chain>>,
}

/// A product of two matrices of `f32` that lie in memory. The operations that follow its sums, if there are any, are a
/// chain whose operands are numbers, or lie in memory as the sums do.
#[derive(Debug)]
pub(crate) struct PreparedProduct {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: OperandMatrix,
    pub w: RightMatrix,
}

#[derive(Debug)]
pub(crate) enum RightMatrix {
    /// A matrix with contiguous rows.
    Rows(OperandMatrix),
    /// A matrix with contiguous columns.
    Columns(OperandMatrix),
    /// The panels that are kept beside the value of an operand, once there are any. Their start is that of the operand.
    Panels(usize, ArrangementKey),
}

/// An operand that is a matrix in memory, with contiguous rows or columns.
#[derive(Debug)]
pub(crate) struct OperandMatrix {
    /// The position among the operands of the step.
    pub operand: usize,
    /// Words from the first element to the last, both counted.
    pub span: usize,
    /// The distance from a row or column to the next.
    pub stride: usize,
}

impl StepCache {
    /// The caches of the steps of `plan`, in order.
    pub fn of_steps(plan: &Plan) -> Vec<Arc<Self>> {
        let mut known = HashMap::<CacheKey<'_>, Arc<Self>>::with_capacity(plan.steps.len());
        let cache =
            |step| Arc::clone(known.entry(CacheKey { step, values: &plan.values }).or_default());
        plan.steps.iter().map(cache).collect()
    }

    /// Returns the tape that the first `compile` for `hole` made.
    pub fn tape(&self, hole: ExprHole, compile: impl FnOnce() -> Tape) -> &Tape {
        self.tapes[hole as usize].get_or_init(compile)
    }

    /// Returns the result of the first `find`.
    pub fn prepared_product(
        &self,
        find: impl FnOnce() -> Option<PreparedProduct>,
    ) -> Option<&PreparedProduct> {
        self.prepared_product.get_or_init(|| find().map(Box::new)).as_deref()
    }

    /// The epilogue as a chain, if a run has found it to be one.
    pub fn known_chain(&self) -> Option<&Chain> {
        self.chain.get()?.as_ref()
    }

    /// Returns the result of the first `find`.
    pub fn chain(&self, find: impl FnOnce() -> Option<Chain>) -> Option<&Chain> {
        self.chain.get_or_init(find).as_ref()
    }
}

/// The facts of a step that its cache depends on. Steps of the same key share a cache, and the first of them that runs fills
/// it, as in the steps of a recurrent layer.
struct CacheKey<'p> {
    step: &'p Step,
    values: &'p [Value],
}

impl<'p> CacheKey<'p> {
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

impl Hash for CacheKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.step.expr.hash(state);
        self.operands().for_each(|operand| operand.hash(state));
    }
}

impl PartialEq for CacheKey<'_> {
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

impl Eq for CacheKey<'_> {}
