//! Maps that only put a border around a value: lines of it are copied.

use std::ops::Range;

use smallvec::SmallVec;

use crate::base::shape::View;
use crate::exec::HostBuffer;
use crate::exec::cpu::StepJob;
use crate::exec::cpu::operands::{BoundInput, OutputPart, for_each_part};
use crate::plan::{Border, MapForm, OperandSource, StepOperand};

/// A value with a border, where the value lies in memory.
pub(super) struct BorderedMap<'a> {
    dims: &'a [usize],
    /// The coordinates inside of the border, along each axis.
    inside: SmallVec<[Range<usize>; 4]>,
    border: u32,
    /// The elements inside of the border, line by line.
    elements: BoundInput<'a>,
}

impl<'a> BorderedMap<'a> {
    /// The step as such a map, if it is one. All elements inside of the border have to lie in the value.
    pub fn of(job: &StepJob<'a>, form: &'a MapForm) -> Option<Self> {
        let step = job.step;
        let [output] = &step.outputs[..] else { return None };
        let Border { element, number, inside: ranges, .. } =
            Border::of(&step.borders, output.root)?;
        let (operand, _, buffer) = job.loaded(*element)?;
        if output.dtype != operand.dtype || !operand.dtype.is_word() || form.dims.is_empty() {
            return None;
        }
        let mut inside: SmallVec<[Range<usize>; 4]> = form.dims.iter().map(|&dim| 0..dim).collect();
        for (at, range) in ranges {
            let (axis, range) = counted(&step.operands[*at], range.clone())?;
            let own = &mut inside[axis];
            *own = own.start.max(range.start)..own.end.min(range.end);
        }
        let view = &operand.view;
        let starts = inside.iter().zip(&view.strides);
        let view = View {
            offset: view.offset + starts.map(|(range, s)| range.start as i64 * s).sum::<i64>(),
            dims: inside.iter().map(Range::len).collect(),
            strides: view.strides.clone(),
        };
        let lies_there = view.is_inside(buffer.len());
        lies_there.then(|| Self {
            dims: &form.dims,
            inside,
            border: step.scalars[*number].lane_bits(),
            elements: BoundInput::elements(&view, buffer),
        })
    }

    pub fn run(&self, outputs: &mut [HostBuffer]) {
        let len = outputs[0].len();
        let line = self.dims.last().copied().unwrap_or(1);
        for_each_part(
            outputs,
            2 * len as u64,
            line,
            || (),
            |(), mut part| self.write(&mut part, line),
        );
    }

    /// Writes whole lines.
    fn write(&self, part: &mut OutputPart<'_>, line: usize) {
        let (first, lines) = (part.start / line, part.len / line);
        let Some((last, outer)) = self.inside.split_last() else { return };
        let (start, len) = (part.start, part.len);
        let out = part.words(0, 0, len);
        debug_assert_eq!(start % line, 0);
        for (index, out) in (first..first + lines).zip(out.chunks_mut(line)) {
            // The line's number among those inside of the border.
            let (mut rest, mut number, mut count) = (index, Some(0), 1);
            for (range, &dim) in outer.iter().zip(self.dims).rev() {
                let at = rest % dim;
                number = number
                    .filter(|_| range.contains(&at))
                    .map(|number| number + (at - range.start) * count);
                count *= range.len();
                rest /= dim;
            }
            let Some(number) = number.filter(|_| !last.is_empty()) else {
                out.fill(self.border);
                continue;
            };
            out[..last.start].fill(self.border);
            out[last.end..].fill(self.border);
            self.elements.fetch(number * last.len(), &mut out[last.clone()]);
        }
    }
}

/// The axis whose coordinates `counter` counts, and those for which it is in `range`.
pub(super) fn counted(counter: &StepOperand, range: Range<i64>) -> Option<(usize, Range<usize>)> {
    let View { dims, strides, offset } = &counter.view;
    let mut moving = (0..dims.len()).filter(|&axis| dims[axis] > 1 && strides[axis] != 0);
    let axis = moving.next()?;
    if counter.source != OperandSource::Iota || strides[axis] != 1 || moving.next().is_some() {
        return None;
    }
    let at = |bound: i64| bound.saturating_sub(*offset).clamp(0, dims[axis] as i64) as usize;
    let (start, end) = (at(range.start), at(range.end));
    Some((axis, start..end.max(start)))
}
