//! The form of scans: cumulative sums, products and extremes.

use super::axes::Dims;
use super::kernel_form::{KernelForm, join, partial};
use super::row::row_parts;
use super::tally::{Tally, count};
use crate::expr::Ref;
use crate::ops::Combine;
use crate::plan::step_parts::{Space, StepContext};
use crate::plan::target::Target;

/// `prologue` over `outer ++ [len]`; outputs over the same space, with the combination of all up to an element along
/// `len` as `Acc`. `parts` counts the parts into which a GPU cuts each row: with more than one, a first dispatch leaves
/// the combination of each part in the scratch memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScanForm {
    pub combine: Combine,
    pub outer: Dims,
    pub len: usize,
    pub prologue: Ref,
    pub parts: usize,
}

impl KernelForm for ScanForm {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn dims(&self, _space: Space) -> Vec<usize> {
        join(&self.outer, &[self.len])
    }

    fn work(&self, tally: &mut Tally<'_>) {
        let elements = count(&self.outer) * self.len as f64;
        tally.evaluate(&[self.prologue], elements);
        tally.results(elements);
        // The parts of a row are added up once more.
        tally.work.reduce = 2.0 * elements;
    }

    fn tune(&mut self, context: &StepContext<'_>, _target: &Target) {
        self.parts = row_parts(&self.outer, self.len, context);
    }

    fn scratch_words(&self, _context: &StepContext<'_>) -> usize {
        partial(self.parts, &self.outer)
    }
}
