//! The reduce form: elements combined along some axes.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

use super::fold::{Extreme, LaneFold, Position, ProdF32, ProdInt, SumF32, SumInt, TOGETHER};
use super::log_sum_exp::LogSumExp;
use super::order::{Extremum, KeyOrder};
use super::row::write;
use crate::base::dtype::Ty;
use crate::base::shape::View;
use crate::exec::HostBuffer;
use crate::exec::cpu::operands::{
    BoundInput, Lines, MOST_LINES, for_each, for_each_part, map_each, parts, ranges, split,
};
use crate::exec::cpu::tape::{Machine, Span, TILE, Tape};
use crate::exec::cpu::{ExprHole, StepJob};
use crate::ops::Combine;
use crate::plan::{ReduceForm, Space};

pub(crate) fn run(job: &StepJob<'_>, reduce: &ReduceForm, outputs: &mut [HostBuffer]) {
    use Extremum::{Greatest, Least};
    let ty = job.step.expr.ty(reduce.prologue);
    let by_value = |extremum| KeyOrder::by_value(ty, extremum);
    let by_number = |extremum| KeyOrder::by_number(ty, extremum);
    match (reduce.combine, ty) {
        (Combine::Sum, Ty::F32) => combine(job, reduce, &SumF32, outputs),
        (Combine::Sum, _) => combine(job, reduce, &SumInt, outputs),
        (Combine::Prod, Ty::F32) => combine(job, reduce, &ProdF32, outputs),
        (Combine::Prod, _) => combine(job, reduce, &ProdInt, outputs),
        (Combine::Max, _) => combine(job, reduce, &Extreme(by_value(Greatest)), outputs),
        (Combine::Min, _) => combine(job, reduce, &Extreme(by_value(Least)), outputs),
        (Combine::ArgMax, _) => combine(job, reduce, &Position(by_number(Greatest)), outputs),
        (Combine::ArgMin, _) => combine(job, reduce, &Position(by_number(Least)), outputs),
        (Combine::LogSumExp, _) => combine(job, reduce, &LogSumExp, outputs),
    }
}

/// Most results that are combined together. Longer lines of columns are read faster, while their states stay in the first-level
/// cache.
const fn most_together<S>() -> usize {
    let most = 16 * 1024 / size_of::<S>();
    if most < 4 * TILE { most } else { 4 * TILE }
}

/// Combines the elements of each point of the outer space, and computes the outputs from the combined values.
fn combine<F: LaneFold>(
    job: &StepJob<'_>,
    reduce: &ReduceForm,
    fold: &F,
    outputs: &mut [HostBuffer],
) {
    let outer: usize = reduce.outer.iter().product();
    let inner: usize = reduce.inner.iter().product();
    let inputs_of_results = job.inputs(Space::Out);
    let after = ReduceEpilogue {
        tape: job.tape(ExprHole::After, &job.roots(), &inputs_of_results),
        inputs_of_results,
    };
    if outer * inner == 0 {
        return after.write(&vec![fold.finish(fold.empty()); outer], outputs);
    }
    let columns = by_columns(job, reduce);
    let turn = reduce.outer.len();
    let inputs = job.inputs_through(Space::Main, |view| match columns {
        true => Cow::Owned(rotated(view, turn)),
        false => Cow::Borrowed(view),
    });
    let tape = job.tape(ExprHole::Before, &[reduce.prologue], &inputs);
    let walk = ReduceWalk { fold, inputs: &inputs, outer, inner, columns };
    let cost = (outer as u64).saturating_mul(inner as u64).saturating_mul(tape.flops() + 2);
    let parts = parts(cost.saturating_add(outer as u64 * after.tape.flops()));
    let blocks = walk.blocks(parts);
    if blocks.iter().all(|block| block.inner.len() == inner) {
        let output_parts = split(outputs, parts, walk.outer_unit());
        let most = most_together::<F::State>();
        let worker = || (walk.machine(tape), Machine::new(after.tape), Vec::new());
        return for_each(output_parts, worker, |(before, machine, states), mut part| {
            for at in (0..part.len).step_by(most) {
                let start = part.start + at;
                let outer = start..start + most.min(part.len - at);
                walk.block(before, &ReduceBlock { outer, inner: 0..inner }, states);
                for (i, states) in states.chunks(TILE).enumerate() {
                    let mut acc = [0; TILE];
                    for (lane, &state) in acc.iter_mut().zip(states) {
                        *lane = fold.finish(state);
                    }
                    let acc = &acc[..states.len()];
                    write(machine, &after.inputs_of_results, &mut part, at + i * TILE, acc);
                }
            }
        });
    }
    after.write(&walk.merged(&blocks, tape), outputs);
}

/// The epilogue, which computes the outputs from the combined values.
struct ReduceEpilogue<'a> {
    tape: &'a Tape,
    inputs_of_results: Vec<Option<BoundInput<'a>>>,
}

impl ReduceEpilogue<'_> {
    /// Computes the outputs from `acc`, the combined values of all points.
    fn write(&self, acc: &[u32], outputs: &mut [HostBuffer]) {
        for_each_part(
            outputs,
            acc.len() as u64 * self.tape.flops(),
            TILE,
            || Machine::new(self.tape),
            |machine, mut part| {
                let acc = &acc[part.start..part.start + part.len];
                part.write(machine, &self.inputs_of_results, acc);
            },
        );
    }
}

/// Returns whether neighbours in memory are neighbours in the outer space rather than the inner one. This holds for
/// columns, and for windows that touch or overlap.
fn by_columns(job: &StepJob<'_>, reduce: &ReduceForm) -> bool {
    let last = |view: &View, axes: Range<usize>| {
        let axis = axes.rev().find(|&axis| view.dims[axis] > 1)?;
        let stride = view.strides[axis].unsigned_abs();
        (stride != 0).then_some((stride, view.dims[axis]))
    };
    let split = reduce.outer.len();
    let inner_points: usize = reduce.inner.iter().product();
    let mut votes = 0i64;
    for operand in job.step.operands.iter().filter(|operand| operand.space == Space::Main) {
        let view = &operand.view;
        let (outer, inner) = (last(view, 0..split), last(view, split..view.dims.len()));
        if let (Some((outer, _)), Some((inner, len))) = (outer, inner) {
            let windows = len < inner_points && outer <= inner * len as u64;
            votes += if outer < inner || windows { 1 } else { -1 };
        }
    }
    votes > 0
}

/// Returns the view with its first `turn` axes moved to the end.
fn rotated(view: &View, turn: usize) -> View {
    let mut view = view.clone();
    view.dims.rotate_left(turn);
    view.strides.rotate_left(turn);
    view
}

/// A part of a reduction: some elements of some results.
struct ReduceBlock {
    outer: Range<usize>,
    inner: Range<usize>,
}

/// The order in which the main space is walked.
struct ReduceWalk<'a, F> {
    fold: &'a F,
    inputs: &'a [Option<BoundInput<'a>>],
    outer: usize,
    inner: usize,
    /// True if the inputs run over `inner ++ outer`, and not over `outer ++ inner`.
    columns: bool,
}

impl<F: LaneFold> ReduceWalk<'_, F> {
    /// Returns about `parts` blocks that cover the space. They are whole rows if there are enough rows.
    fn blocks(&self, parts: usize) -> Vec<ReduceBlock> {
        let inner_unit = if self.columns { 16 } else { 4 * TILE };
        let cut = |len: usize, parts: usize, unit: usize| -> SmallVec<[Range<usize>; 8]> {
            ranges(len, len.div_ceil(parts.max(1)).next_multiple_of(unit)).collect()
        };
        let outer = cut(self.outer, parts, self.outer_unit());
        // Rounded down: parts of a row have to be merged, so rows are cut only if they are few.
        let inner = cut(self.inner, parts / outer.len(), inner_unit);
        let pair = |outer: &Range<usize>, inner: &Range<usize>| ReduceBlock {
            outer: outer.clone(),
            inner: inner.clone(),
        };
        outer.iter().flat_map(|o| inner.iter().map(move |i| pair(o, i))).collect()
    }

    /// Number of points of the outer space that are cut off at a time.
    fn outer_unit(&self) -> usize {
        if self.columns { TILE } else { 1 }
    }

    /// Returns the combined values of all points, merged from their parts in `blocks`.
    fn merged(&self, blocks: &[ReduceBlock], tape: &Tape) -> Vec<u32> {
        let of_block = |machine: &mut Machine<'_>, block: &ReduceBlock| {
            let mut states = Vec::new();
            self.block(machine, block, &mut states);
            states
        };
        let partial = map_each(blocks.iter(), || self.machine(tape), of_block);
        let mut states = vec![self.fold.empty(); self.outer];
        // Blocks of one outer range come in the order of their inner ranges.
        for (block, partial) in blocks.iter().zip(partial) {
            for (state, later) in states[block.outer.clone()].iter_mut().zip(partial) {
                self.fold.merge(state, later);
            }
        }
        states.into_iter().map(|state| self.fold.finish(state)).collect()
    }

    /// A machine of the prologue. Its tiles are as long as rows, if registers may be.
    fn machine<'t>(&self, tape: &'t Tape) -> Machine<'t> {
        Machine::for_walk(tape, self.inner, 0, 0)
    }

    fn block(&self, machine: &mut Machine<'_>, block: &ReduceBlock, states: &mut Vec<F::State>) {
        states.clear();
        states.resize(block.outer.len(), self.fold.empty());
        match self.columns {
            false if self.inner <= TILE && block.inner.len() == self.inner => {
                self.short_rows(machine, block, states);
            }
            false => self.long_rows(machine, block, states),
            true if self.outer <= TILE && block.outer.len() == self.outer => {
                self.short_columns(machine, block, states);
            }
            true => self.long_columns(machine, block, states),
        }
    }

    /// Runs the prologue over `len` elements from `start` on and hands its lanes to `take`.
    fn tile(&self, machine: &mut Machine<'_>, start: usize, len: usize, take: impl FnOnce(&[u32])) {
        let span = Span { inputs: self.inputs, start, len, acc: &[] };
        machine.run(&span);
        take(machine.root(0, &span));
    }

    /// Takes several whole rows a tile.
    fn short_rows(&self, machine: &mut Machine<'_>, block: &ReduceBlock, states: &mut [F::State]) {
        let rows = TILE / self.inner;
        for (i, states) in states.chunks_mut(rows).enumerate() {
            let start = (block.outer.start + i * rows) * self.inner;
            self.tile(machine, start, states.len() * self.inner, |lanes| {
                for (state, lanes) in states.iter_mut().zip(lanes.chunks(self.inner)) {
                    self.fold.row(state, lanes, 0);
                }
            });
        }
    }

    /// Takes several tiles a row.
    fn long_rows(&self, machine: &mut Machine<'_>, block: &ReduceBlock, states: &mut [F::State]) {
        let most = machine.longest_span();
        for (row, state) in block.outer.clone().zip(states) {
            for at in block.inner.clone().step_by(most) {
                let len = most.min(block.inner.end - at);
                self.tile(machine, row * self.inner + at, len, |lanes| {
                    self.fold.row(state, lanes, at);
                });
            }
        }
    }

    /// Takes the elements of several positions a tile.
    fn short_columns(
        &self,
        machine: &mut Machine<'_>,
        block: &ReduceBlock,
        states: &mut [F::State],
    ) {
        let positions = TILE / self.outer;
        for at in block.inner.clone().step_by(positions) {
            let len = positions.min(block.inner.end - at);
            self.tile(machine, at * self.outer, len * self.outer, |lanes| {
                for (i, lanes) in lanes.chunks(MOST_LINES * self.outer).enumerate() {
                    let lines: Lines<'_> = lanes.chunks(self.outer).collect();
                    self.positions(states, at + i * MOST_LINES, &lines);
                }
            });
        }
    }

    /// Takes the elements of several positions where they lie in memory, or else several tiles for those of one position.
    fn long_columns(
        &self,
        machine: &mut Machine<'_>,
        block: &ReduceBlock,
        states: &mut [F::State],
    ) {
        let input = machine.fetched(self.inputs);
        let (mut first, mut states) = (block.outer.start, states);
        while !states.is_empty() {
            let lines =
                |index: usize, count| input?.lines(index * self.outer + first, self.outer, count);
            let line = lines(block.inner.start, 1).and_then(|lines| Some(lines.first()?.len()));
            let most = line.map_or(TILE, |len| len.min(most_together::<F::State>()));
            let (now, later) = states.split_at_mut(most.min(states.len()));
            for at in block.inner.clone().step_by(MOST_LINES) {
                let count = MOST_LINES.min(block.inner.end - at);
                match lines(at, count) {
                    Some(lines) => self.positions(now, at, &lines),
                    None => self.fetched_columns(machine, first, at..at + count, now),
                }
            }
            (first, states) = (first + now.len(), later);
        }
    }

    /// Takes the elements at some positions of as many results as there are states, from `first` on. Each position is a tile.
    fn fetched_columns(
        &self,
        machine: &mut Machine<'_>,
        first: usize,
        positions: Range<usize>,
        states: &mut [F::State],
    ) {
        for index in positions {
            let start = index * self.outer + first;
            // The next position lies farther away than the hardware prefetches.
            for input in self.inputs.iter().flatten() {
                input.fetch_ahead(start + self.outer, states.len());
            }
            self.tile(machine, start, states.len(), |lanes| self.fold.column(states, lanes, index));
        }
    }

    /// Takes the elements at the positions from `first` on, several in one pass. Each of `lines` begins with those of one position.
    fn positions(&self, states: &mut [F::State], first: usize, lines: &[&[u32]]) {
        let (together, single) = lines.as_chunks::<TOGETHER>();
        let mut index = first;
        for lanes in together {
            self.fold.columns(states, lanes, index);
            index += TOGETHER;
        }
        for (index, lanes) in (index..).zip(single) {
            self.fold.column(states, &lanes[..states.len()], index);
        }
    }
}
