//! Maps that only put the axes of a value in another order.

use crate::exec::HostBuffer;
use crate::exec::cpu::StepJob;
use crate::exec::cpu::operands::{
    OutputPart, Transposed, for_each, parts_with_spinning_helpers, split,
};

/// The cost of an element, in words moved.
const COST: u64 = 24;

/// A value whose axes stand in another order.
pub(super) struct PermutedMap<'a>(Transposed<'a>);

impl<'a> PermutedMap<'a> {
    /// The step as such a map, if it is one and neighbours of the result lie far apart.
    pub fn of(job: &StepJob<'a>) -> Option<Self> {
        let [output] = &job.step.outputs[..] else { return None };
        let (operand, _, buffer) = job.loaded(output.root)?;
        let fits = operand.dtype == output.dtype && operand.view.is_inside(buffer.len());
        if fits { Transposed::of(&operand.view, buffer).map(Self) } else { None }
    }

    pub fn run(&self, outputs: &mut [HostBuffer]) {
        let parts = parts_with_spinning_helpers(COST * outputs[0].len() as u64);
        let work = |(): &mut (), part: OutputPart<'_>| {
            for (_, bytes) in part.outputs {
                self.0.copy(part.start, bytes);
            }
        };
        for_each(split(outputs, parts, self.0.row_len()), || (), work);
    }
}
