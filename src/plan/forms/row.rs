//! The form of row normalisations.

use super::axes::Dims;
use super::kernel_form::{KernelForm, WORKGROUP_THREADS, join, partial};
use super::tally::{Tally, count};
use crate::base::shape::points;
use crate::expr::Ref;
use crate::ops::RowKind;
use crate::plan::step_parts::{Space, StepContext};
use crate::plan::target::Target;

/// Workgroups that fill a large GPU: of 256 threads, an H200's 132 cores hold 1056.
const FILL_GROUPS: usize = 1024;

/// `prologue` over `outer ++ [len]`, normalised along `len`; outputs over the same space, with the normalised value as
/// `Acc`. `epsilon` is the position of ε in the step's scalars; `parts` counts the parts into which a GPU cuts each
/// row: with more than one, a first dispatch leaves statistics of the parts in the scratch memory.
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

    fn tune(&mut self, context: &StepContext<'_>, _target: &Target) {
        self.parts = row_parts(&self.outer, self.len, context);
    }

    fn scratch_words(&self, _context: &StepContext<'_>) -> usize {
        partial(self.parts, &[points(&self.outer), self.kind.def().words])
    }
}

/// Parts of each row, for the forms that work along rows: long rows, or columns, fill a GPU however few they are. Rows
/// that registers hold are not cut.
pub(super) fn row_parts(outer: &[usize], len: usize, context: &StepContext<'_>) -> usize {
    let rows = points(outer);
    let across = context.outputs[0].view.strides.last().is_some_and(|stride| stride.abs() > 1);
    let (groups, held, least) = if across {
        (rows.div_ceil(32), 128, 128)
    } else {
        (rows, RowForm::HELD, WORKGROUP_THREADS * 16)
    };
    if len <= held || groups >= FILL_GROUPS {
        return 1;
    }
    (2 * FILL_GROUPS).div_ceil(groups.max(1)).min(len / least).max(1)
}
