//! The map form: one result per element.

mod border;
mod join;

use self::border::BorderedMap;
use self::join::JoinedMap;
use crate::exec::HostBuffer;
use crate::exec::cpu::operands::{
    BoundInput, Transposed, for_each, parts_with_spinning_helpers, split,
};
use crate::exec::cpu::tape::Machine;
use crate::exec::cpu::{ExprHole, StepJob};
use crate::plan::{MapForm, Space};

pub(crate) fn run(job: &StepJob<'_>, form: &MapForm, outputs: &mut [HostBuffer]) {
    if let Some(map) = BorderedMap::of(job, form) {
        return map.run(outputs);
    }
    if let Some(map) = JoinedMap::of(job, form) {
        return map.run(outputs);
    }
    if let Some(transposed) = transposed(job) {
        return transposed.copy_to(&mut outputs[0]);
    }
    let inputs = job.inputs(Space::Main);
    let tape = job.tape(ExprHole::After, &job.roots(), &inputs);
    let len = outputs[0].len();
    let brought: u64 = inputs.iter().flatten().map(BoundInput::cost).sum();
    let parts =
        parts_with_spinning_helpers(len as u64 * (tape.flops() + brought + outputs.len() as u64));
    let converted = outputs.iter().filter(|output| output.dtype().size() != 4).count();
    for_each(
        split(outputs, parts, tape.unit()),
        || Machine::for_walk(tape, len.div_ceil(parts), len, converted),
        |machine, mut part| part.write(machine, &inputs, &[]),
    );
}

/// The value of a step that only puts its axes in another order, if neighbours of the result lie far apart.
fn transposed<'a>(job: &StepJob<'a>) -> Option<Transposed<'a>> {
    let [output] = &job.step.outputs[..] else { return None };
    let (operand, _, buffer) = job.loaded(output.root)?;
    let fits = operand.dtype == output.dtype && operand.view.is_inside(buffer.len());
    if fits { Transposed::of(&operand.view, buffer) } else { None }
}
