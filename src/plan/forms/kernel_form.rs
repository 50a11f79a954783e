//! The trait of kernel forms: all facts that the plan needs about one.

use super::host_work::with_indexed_loads;
use super::tally::Tally;
use crate::base::shape::points;
use crate::cost::Work;
use crate::cost::selector::OpComplexity;
use crate::ops::CustomKernel;
use crate::plan::step_parts::{Space, StepContext};
use crate::plan::target::Target;

/// Threads of a workgroup: the most that WebGPU promises.
pub(crate) const WORKGROUP_THREADS: usize = 256;

/// Everything that the plan must know of a kernel form.
pub(crate) trait KernelForm {
    /// The form's name in `explain` and in profiles; it says which kernel the schedule takes.
    fn name(&self) -> &'static str;

    /// The complexity by which the published rules for placement class the kernel.
    fn complexity(&self) -> OpComplexity {
        OpComplexity::Medium
    }

    /// The dimensions of a space. The *main space* of a form is the one that its prologue (or, for a map, its outputs)
    /// iterates over; the *out space* is the one that its outputs iterate over.
    fn dims(&self, space: Space) -> Vec<usize>;

    /// The points of the largest space that a kernel counts through.
    fn points(&self) -> u64 {
        points(&self.dims(Space::Main)) as u64
    }

    /// Counts the work of the form.
    fn work(&self, tally: &mut Tally<'_>);

    /// Finds what the step's expressions are, for both sides.
    fn analyse(&mut self, _context: &StepContext<'_>) {}

    /// Chooses the schedule of a GPU kernel.
    fn tune(&mut self, _context: &StepContext<'_>, _target: &Target) {}

    /// The words of scratch memory that the schedule takes, 0 if none.
    fn scratch_words(&self, _context: &StepContext<'_>) -> usize {
        0
    }

    /// The number of GPU dispatches of the schedule, which has scratch memory or not: partial results there take a
    /// second one.
    fn dispatches(&self, has_scratch: bool) -> u64 {
        1 + u64::from(has_scratch)
    }

    /// Predicted seconds of the form's products on a GPU, if more is known than their flops.
    fn product_seconds(&self, _work: &Work, _target: &Target) -> Option<f64> {
        None
    }

    /// The work on the host, where `work` is that of a GPU's kernel.
    fn on_host(&self, work: Work, context: &StepContext<'_>) -> Work {
        with_indexed_loads(work, context.operands)
    }

    /// The unit in which the form's work is told to people.
    fn measure(&self) -> Measure {
        Measure::Flops
    }

    /// True if the form evaluates its outputs once an element, so that they may fail on the data.
    fn may_fail(&self) -> bool {
        false
    }

    /// The kernel of the user's own that the form runs: it reads all of each table, wherever its indices point, and its
    /// duration is not known.
    fn custom_kernel(&self) -> Option<&CustomKernel> {
        None
    }
}

/// The unit of a form's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Arithmetic operations.
    Flops,
    /// A number of elements, of which each costs more moves than arithmetic.
    Elements(u64),
}

/// The words of the partial results of so many parts, each of these dimensions; 0 for one part.
pub(super) fn partial(parts: usize, dims: &[usize]) -> usize {
    if parts > 1 { points(dims).saturating_mul(parts) } else { 0 }
}

/// `head` and then `tail`.
pub(super) fn join(head: &[usize], tail: &[usize]) -> Vec<usize> {
    [head, tail].concat()
}
