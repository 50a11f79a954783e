//! The scan form: running combinations along one axis.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

use super::fold::{Extreme, ProdF32, ProdInt, Running, SumF32, SumInt};
use super::order::{Extremum, KeyOrder};
use super::row::{fill, write};
use crate::base::dtype::Ty;
use crate::base::shape::View;
use crate::exec::HostBuffer;
use crate::exec::cpu::operands::{BoundInput, OutputPart, for_each, map_each, parts, split};
use crate::exec::cpu::tape::{Machine, TILE};
use crate::exec::cpu::{ExprHole, StepJob};
use crate::ops::Combine;
use crate::plan::{ScanForm, Space};

pub(crate) fn run(job: &StepJob<'_>, scan: &ScanForm, outputs: &mut [HostBuffer]) {
    let ty = job.step.expr.ty(scan.prologue);
    match (scan.combine, ty) {
        (Combine::Sum, Ty::F32) => walk(job, scan, &SumF32, outputs),
        (Combine::Sum, _) => walk(job, scan, &SumInt, outputs),
        (Combine::Prod, Ty::F32) => walk(job, scan, &ProdF32, outputs),
        (Combine::Prod, _) => walk(job, scan, &ProdInt, outputs),
        (Combine::Min, _) => {
            walk(job, scan, &Extreme(KeyOrder::by_value(ty, Extremum::Least)), outputs);
        }
        (Combine::Max, _) => {
            walk(job, scan, &Extreme(KeyOrder::by_value(ty, Extremum::Greatest)), outputs);
        }
        (Combine::ArgMax | Combine::ArgMin | Combine::LogSumExp, _) => {
            unreachable!("no scan has such partial results")
        }
    }
}

/// Computes the outputs in the order of memory. A block has `len` rows, of as many columns as lie between neighbours
/// along the scanned axis. If blocks are few, they are cut into pieces. Each piece is read once for its combined value,
/// and then again for its results.
fn walk<F: Running>(job: &StepJob<'_>, scan: &ScanForm, fold: &F, outputs: &mut [HostBuffer]) {
    let step = job.step;
    let (order, columns) = order(&step.outputs[0].view);
    let inputs =
        job.inputs_through(Space::Main, |view| Cow::Owned(view.along(order.iter().copied())));
    let before = job.tape(ExprHole::Before, &[scan.prologue], &inputs);
    let after = job.tape(ExprHole::After, &job.roots(), &inputs);
    let (count, block) = (outputs[0].len(), scan.len * columns);
    let blocks = count / block;
    let wanted = parts(count as u64 * (before.flops() + after.flops() + 2));
    // Running results of words are written to the output directly, without a copy.
    let in_place = outputs.len() == 1 && outputs[0].dtype().is_word() && after.is_acc(0);
    let scanner = Scanner { fold, inputs: &inputs, columns, block };
    let mut output_parts = split(outputs, wanted.min(blocks), block);
    let mut starts = vec![Vec::new(); output_parts.len()];
    if wanted > blocks && scan.len > 1 {
        let rows = scan.len.div_ceil(wanted.div_ceil(blocks)).max(TILE.div_ceil(columns));
        output_parts = output_parts.into_iter().flat_map(|part| part.cut(rows * columns)).collect();
        let spans: Vec<(usize, usize)> = output_parts.iter().map(|c| (c.start, c.len)).collect();
        let ends = map_each(
            spans.iter(),
            || (Machine::new(before), vec![0; TILE]),
            |(machine, lanes), &(start, len)| scanner.combined(machine, lanes, start, len),
        );
        starts = scanner.starts(&spans, ends);
    }
    for_each(
        output_parts.into_iter().zip(starts).collect(),
        || (Machine::new(before), Machine::new(after), vec![0; TILE]),
        |(before, after, lanes), (mut part, mut states): (OutputPart<'_>, Vec<F::State>)| {
            states.resize(columns, fold.empty());
            for at in (0..part.len).step_by(TILE) {
                let (start, len) = (part.start + at, TILE.min(part.len - at));
                let mut run = |lanes: &mut [u32]| {
                    fill(before, &inputs, start, lanes);
                    scanner.run(&mut states, start, lanes);
                };
                if in_place {
                    run(part.words(0, at, len));
                } else {
                    let lanes = &mut lanes[..len];
                    run(lanes);
                    write(after, &inputs, &mut part, at, lanes);
                }
            }
        },
    );
}

/// Returns the axes of a form's space in the order of its output's memory. The second value is the number of elements
/// between neighbours along the scanned axis, the last of the space.
fn order(output: &View) -> (SmallVec<[usize; 8]>, usize) {
    let scanned = output.dims.len() - 1;
    let mut order: SmallVec<[usize; 8]> = (0..=scanned).collect();
    // An axis of size 1 may have any stride. The scanned axis comes first among such axes.
    let key = |&axis: &usize| if output.dims[axis] == 1 { i64::MAX } else { output.strides[axis] };
    order.sort_by_key(|axis| std::cmp::Reverse((key(axis), *axis == scanned)));
    let at = order.iter().position(|&axis| axis == scanned).unwrap_or_default();
    let columns = order[at + 1..].iter().map(|&axis| output.dims[axis]).product();
    (order, columns)
}

struct Scanner<'a, F> {
    fold: &'a F,
    inputs: &'a [Option<BoundInput<'a>>],
    columns: usize,
    /// Elements of a block.
    block: usize,
}

impl<F: Running> Scanner<'_, F> {
    /// Replaces `lanes`, the first of which is element `start`, by the results, and advances `states`.
    fn run(&self, states: &mut [F::State], start: usize, lanes: &mut [u32]) {
        self.each(start, lanes.len(), |offset, range| {
            if offset == 0 {
                states.fill(self.fold.empty());
            }
            if self.columns == 1 {
                self.fold.run_row(&mut states[0], &mut lanes[range]);
            } else {
                let column = offset % self.columns;
                self.fold.run_columns(&mut states[column..][..range.len()], &mut lanes[range]);
            }
        });
    }

    /// Returns the combined states of `len` elements of one block from `start` on, by column.
    fn combined(
        &self,
        machine: &mut Machine<'_>,
        lanes: &mut [u32],
        start: usize,
        len: usize,
    ) -> Vec<F::State> {
        let mut states = vec![self.fold.empty(); self.columns];
        for at in (0..len).step_by(TILE) {
            let lanes = &mut lanes[..TILE.min(len - at)];
            fill(machine, self.inputs, start + at, lanes);
            self.each(start + at, lanes.len(), |offset, range| {
                if self.columns == 1 {
                    self.fold.row(&mut states[0], &lanes[range], 0);
                } else {
                    let column = offset % self.columns;
                    self.fold.column(&mut states[column..][..range.len()], &lanes[range], 0);
                }
            });
        }
        states
    }

    /// Returns the state before each of `spans` in its block, from the combined states `ends` of the spans.
    fn starts(&self, spans: &[(usize, usize)], ends: Vec<Vec<F::State>>) -> Vec<Vec<F::State>> {
        let nothing = vec![self.fold.empty(); self.columns];
        let mut before = nothing.clone();
        let mut starts = Vec::with_capacity(spans.len());
        for (&(start, _), end) in spans.iter().zip(ends) {
            if start.is_multiple_of(self.block) {
                before.clone_from(&nothing);
            }
            starts.push(before.clone());
            before.iter_mut().zip(end).for_each(|(state, later)| self.fold.merge(state, later));
        }
        starts
    }

    /// Calls `work` for each range within `len` elements from `start` on. A range keeps to one block and, if there are
    /// several columns, to one row. The first argument is the offset of the range in its block.
    fn each(&self, start: usize, len: usize, mut work: impl FnMut(usize, Range<usize>)) {
        let unit = if self.columns == 1 { self.block } else { self.columns };
        let mut at = 0;
        while at < len {
            let offset = (start + at) % self.block;
            let run = (unit - offset % unit).min(len - at);
            work(offset, at..at + run);
            at += run;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_lie_in_the_order_of_their_strides() {
        // The scanned axis of 4 lies between those of 3 and of 5.
        let view = View { dims: [3, 5, 4][..].into(), strides: [20, 1, 5][..].into(), offset: 0 };
        assert_eq!(order(&view), ([0, 2, 1][..].into(), 5));
        let view = View { dims: [6, 1][..].into(), strides: [1, 6][..].into(), offset: 0 };
        assert_eq!(order(&view).1, 6);
        let view = View { dims: [1, 6][..].into(), strides: [7, 1][..].into(), offset: 0 };
        assert_eq!(order(&view).1, 1);
    }
}
