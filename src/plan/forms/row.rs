//! The form of row normalisations.

use super::axes::Dims;
use super::row_parts::row_parts;
use super::tally::{Tally, count};
use super::{KernelForm, join};
use crate::base::shape::points;
use crate::expr::Ref;
use crate::ops::RowKind;
use crate::plan::Target;
use crate::plan::step_parts::{Space, StepParts};

/// `prologue` over `outer ++ [len]`, normalised along `len`; outputs over the same space, with the
/// normalised value as `Acc`. `epsilon` is the position of ε in the step's scalars; `parts` is what a
/// GPU cuts each row into: with more than one, a first dispatch leaves statistics of the parts in
/// the scratch memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowForm {
    pub kind: RowKind,
    pub outer: Dims,
    pub len: usize,
    pub prologue: Ref,
    pub epsilon: Option<u16>,
    pub parts: usize,
}

impl RowForm {
    /// The longest row that a workgroup's threads hold in their registers: 64 elements each, a quarter of the registers that
    /// a thread may have. Longer rows are read twice.
    pub const HELD: usize = 16_384;
}

impl KernelForm for RowForm {
    fn name(&self) -> &'static str {
        "row"
    }

    fn dims(&self, _space: Space) -> Vec<usize> {
        join(&self.outer, &[self.len])
    }

    fn work(&self, tally: &mut Tally<'_>) {
        let elements = count(&self.outer) * self.len as f64;
        tally.evaluate(&[self.prologue], elements);
        tally.results(elements);
        tally.work.row = elements * self.kind.def().flops as f64;
    }

    fn schedule(&mut self, parts: &StepParts<'_>, _target: &Target) -> Option<u64> {
        let across = parts.outputs[0].view.strides.last().is_some_and(|stride| stride.abs() > 1);
        let rows = points(&self.outer);
        self.parts = row_parts(rows, self.len, across, Self::HELD);
        (self.parts > 1).then(|| (rows * self.parts * self.kind.def().words) as u64)
    }
}
