//! Maps that only join values along an axis: parts of lines are copied.

use std::ops::Range;

use super::border::counted;
use crate::base::shape::View;
use crate::exec::HostBuffer;
use crate::exec::cpu::StepJob;
use crate::exec::cpu::operands::{
    BoundInput, OutputPart, for_each, parts_with_spinning_helpers, split,
};
use crate::exec::cpu::tape::TILE;
use crate::expr::Ref;
use crate::plan::{Join, MapForm};

/// Values that lie in memory, one after the other along an axis.
pub(super) struct JoinedMap<'a> {
    /// Elements of a line: the axis, and all axes after it.
    line: usize,
    values: Vec<JoinedValue<'a>>,
}

struct JoinedValue<'a> {
    /// Its elements of each line.
    position: Range<usize>,
    /// The elements that the result takes, line by line.
    elements: BoundInput<'a>,
}

impl<'a> JoinedMap<'a> {
    /// The step as such a map, if it is one.
    pub fn of(job: &StepJob<'a>, form: &'a MapForm) -> Option<Self> {
        let step = job.step;
        let [output] = &step.outputs[..] else { return None };
        if !output.dtype.is_word() {
            return None;
        }
        let join = Join::copied(&step.joins, &step.expr, &step.outputs)?;
        let counter = &step.operands[join.counter];
        let (axis, _) = counted(counter, i64::MIN..i64::MAX)?;
        let (mut values, mut done) = (Vec::with_capacity(join.values.len()), 0);
        for &(value, end) in &join.values {
            let (_, before) = counted(counter, i64::MIN..end)?;
            values.push((value, done..before.end));
            done = before.end;
        }
        let inner: usize = form.dims[axis + 1..].iter().product();
        let value = |(value, along): (Ref, Range<usize>)| {
            let (operand, _, buffer) = job.loaded(value)?;
            let mut view: View = operand.view.clone();
            view.offset += along.start as i64 * view.strides[axis];
            view.dims[axis] = along.len();
            let fits = operand.dtype == output.dtype && view.is_inside(buffer.len());
            fits.then(|| JoinedValue {
                position: along.start * inner..along.end * inner,
                elements: BoundInput::elements(&view, buffer),
            })
        };
        let values = values.into_iter().filter(|(_, along)| !along.is_empty()).map(value);
        Some(Self { line: form.dims[axis] * inner, values: values.collect::<Option<_>>()? })
    }

    pub fn run(&self, outputs: &mut [HostBuffer]) {
        let len = outputs[0].len();
        let parts = split(outputs, parts_with_spinning_helpers(2 * len as u64), TILE);
        for_each(parts, || (), |(), mut part| self.write(&mut part));
    }

    fn write(&self, part: &mut OutputPart<'_>) {
        let (start, len) = (part.start, part.len);
        let out = part.words(0, 0, len);
        let mut done = 0;
        while done < len {
            let (line, at) = ((start + done) / self.line, (start + done) % self.line);
            let index = self.values.partition_point(|value| value.position.end <= at);
            let JoinedValue { position, elements } = &self.values[index];
            let count = (position.end - at).min(len - done);
            let first = line * position.len() + at - position.start;
            elements.fetch(first, &mut out[done..done + count]);
            done += count;
        }
    }
}
