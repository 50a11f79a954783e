//! Chains: operations that follow a sum, each of which takes the result of the one before and a second operand. A loop
//! runs all of them over lanes in registers.

use std::ops::Range;

use bytemuck::cast_slice;
use multiversion::multiversion;
use smallvec::SmallVec;

use crate::exec::cpu::operands::BoundInput;
use crate::exec::cpu::tape::pair::Second;
use crate::exec::cpu::tape::{Machine, Span, TILE, Tape, math};

/// Lanes that are computed at a time, and those of the ends of segments.
const WIDE: usize = 64;
const NARROW: usize = 16;

/// The operations of a chain, and the values that operands have in common.
#[derive(Debug)]
pub(crate) struct Chain {
    pub links: SmallVec<[(Second, LinkOperand); 4]>,
    /// Elements of a run, along which each value of a run is the same; `usize::MAX` without such values.
    pub run: usize,
    /// Elements of a row, each with the same values of columns; `usize::MAX` without such values.
    pub row: usize,
    pub of_runs: Option<LinkTable>,
    pub of_columns: Option<LinkTable>,
}

/// The second operand of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkOperand {
    Constant(f32),
    /// The root of the table of runs.
    Run(usize),
    /// The root of the table of columns.
    Column(usize),
    /// An operand's memory.
    Memory(u16),
}

/// Values that are computed once for each run or column.
#[derive(Debug)]
pub(crate) struct LinkTable {
    pub tape: Tape,
    /// The axes of the out space that the values run over.
    pub axes: Range<usize>,
    pub len: usize,
}

impl LinkTable {
    /// The values of each root.
    fn values(&self, inputs: &[Option<BoundInput<'_>>]) -> Vec<Vec<f32>> {
        let mut values = vec![Vec::with_capacity(self.len); self.tape.roots.len()];
        let mut machine = Machine::new(&self.tape);
        for start in (0..self.len).step_by(TILE) {
            let span = Span { inputs, start, len: TILE.min(self.len - start), acc: &[] };
            machine.run(span);
            for (at, values) in values.iter_mut().enumerate() {
                values.extend_from_slice(cast_slice(machine.root(at, span)));
            }
        }
        values
    }
}

/// A chain whose operands are bound.
pub(crate) struct BoundChain<'a> {
    links: Vec<(Second, Bound<'a>)>,
    run: usize,
    row: usize,
}

enum Bound<'a> {
    Constant(f32),
    Runs(Vec<f32>),
    Columns(Vec<f32>),
    Memory(&'a [f32]),
}

impl Chain {
    /// Binds the operands: those of the out space, and the same through the axes of each table.
    pub fn bind<'a>(
        &self,
        inputs: &[Option<BoundInput<'a>>],
        through: impl Fn(&Range<usize>) -> Vec<Option<BoundInput<'a>>>,
    ) -> BoundChain<'a> {
        let values = |table: &Option<LinkTable>| {
            table.as_ref().map(|table| table.values(&through(&table.axes))).unwrap_or_default()
        };
        let (mut of_runs, mut of_columns) = (values(&self.of_runs), values(&self.of_columns));
        let bound = |&(op, operand): &(Second, LinkOperand)| {
            let operand = match operand {
                LinkOperand::Constant(number) => Bound::Constant(number),
                LinkOperand::Run(at) => Bound::Runs(std::mem::take(&mut of_runs[at])),
                LinkOperand::Column(at) => Bound::Columns(std::mem::take(&mut of_columns[at])),
                LinkOperand::Memory(at) => match &inputs[usize::from(at)] {
                    Some(BoundInput::Memory(words)) => Bound::Memory(cast_slice(words)),
                    _ => unreachable!("the plan says where operands lie"),
                },
            };
            (op, operand)
        };
        BoundChain { links: self.links.iter().map(bound).collect(), run: self.run, row: self.row }
    }
}

/// An operation over the lanes of a segment.
#[derive(Clone, Copy)]
struct SegmentLink<'s> {
    op: Second,
    operand: SegmentOperand<'s>,
}

#[derive(Clone, Copy)]
enum SegmentOperand<'s> {
    Splat(f32),
    Lanes(&'s [f32]),
}

impl BoundChain<'_> {
    /// Replaces `sums`, which begin at position `start` of the out space, by the results of the chain.
    pub fn apply(&self, start: usize, sums: &mut [f32]) {
        let (mut at, end) = (start, start + sums.len());
        while at < end {
            let (run, column) = (at / self.run, at % self.row);
            let next = end.min((run + 1).saturating_mul(self.run));
            let next = next.min(at.saturating_add(self.row - column));
            let links = self.links.iter().map(|(op, operand)| {
                let operand = match operand {
                    Bound::Constant(number) => SegmentOperand::Splat(*number),
                    Bound::Runs(values) => SegmentOperand::Splat(values[run]),
                    Bound::Columns(values) => SegmentOperand::Lanes(&values[column..]),
                    Bound::Memory(words) => SegmentOperand::Lanes(&words[at..next]),
                };
                SegmentLink { op: *op, operand }
            });
            let links: SmallVec<[SegmentLink<'_>; 8]> = links.collect();
            run_links(&links, &mut sums[at - start..next - start]);
            at = next;
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn run_links(links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    let len = lanes.len();
    // The last lanes are computed from copies: some of them are done before.
    let last: Option<[f32; NARROW]> = lanes.last_chunk().copied();
    let mut at = 0;
    while let Some(lanes) = lanes[at..].first_chunk_mut::<WIDE>() {
        run_at(links, at, lanes);
        at += WIDE;
    }
    while let Some(lanes) = lanes[at..].first_chunk_mut::<NARROW>() {
        run_at(links, at, lanes);
        at += NARROW;
    }
    match last {
        Some(mut last) if at < len => {
            run_at(links, len - NARROW, &mut last);
            lanes[len - NARROW..].copy_from_slice(&last);
        }
        _ => {
            for (i, lane) in lanes.iter_mut().enumerate().skip(at) {
                run_at(links, i, std::array::from_mut(lane));
            }
        }
    }
}

/// Computes `lanes`, which begin at position `at` of the segment.
#[inline(always)]
fn run_at<const N: usize>(links: &[SegmentLink<'_>], at: usize, lanes: &mut [f32; N]) {
    let mut values = *lanes;
    for &SegmentLink { op, operand } in links {
        match operand {
            SegmentOperand::Splat(number) => step(op, &mut values, &[number; N]),
            SegmentOperand::Lanes(operand) => {
                let own = operand[at..].first_chunk().expect("an operand has all lanes");
                step(op, &mut values, own);
            }
        }
    }
    *lanes = values;
}

/// Computes `values[i]` = `op(values[i], operand[i])`. It is a macro, since a closure would not be compiled for the
/// instruction set of the function around it.
macro_rules! each {
    ($values:ident, $operand:ident, |$t:ident, $z:ident| $f:expr) => {
        for i in 0..N {
            let ($t, $z) = ($values[i], $operand[i]);
            $values[i] = $f;
        }
    };
}

#[inline(always)]
fn step<const N: usize>(op: Second, values: &mut [f32; N], operand: &[f32; N]) {
    match op {
        Second::Add => each!(values, operand, |t, z| t + z),
        Second::Mul => each!(values, operand, |t, z| t * z),
        Second::Sub => each!(values, operand, |t, z| t - z),
        Second::SubFrom => each!(values, operand, |t, z| z - t),
        Second::Min => each!(values, operand, |t, z| math::min(t, z)),
        Second::MinOf => each!(values, operand, |t, z| math::min(z, t)),
        Second::Max => each!(values, operand, |t, z| math::max(t, z)),
        Second::MaxOf => each!(values, operand, |t, z| math::max(z, t)),
        Second::Square => each!(values, operand, |t, _z| t * t),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_any_number_take_their_own_operands() {
        const RUN: usize = 37;
        const ROW: usize = 23;
        let len = 5 * RUN * ROW;
        let number = |at: usize| ((at * 29) % 101) as f32 - 50.0;
        let memory: Vec<f32> = (0..len).map(|at| number(at + 7)).collect();
        let runs: Vec<f32> = (0..len.div_ceil(RUN)).map(|at| number(at + 3)).collect();
        let columns: Vec<f32> = (0..ROW).map(|at| number(at + 5)).collect();
        let chain = BoundChain {
            links: vec![
                (Second::Sub, Bound::Runs(runs.clone())),
                (Second::Mul, Bound::Columns(columns.clone())),
                (Second::SubFrom, Bound::Memory(&memory)),
                (Second::Max, Bound::Constant(-900.0)),
                (Second::MinOf, Bound::Constant(800.0)),
            ],
            run: RUN,
            row: ROW,
        };
        for start in [0, 1, 36, 37, 500] {
            for count in [0, 1, 15, 16, 17, 63, 64, 65, 200, 1001] {
                let mut got: Vec<f32> = (start..start + count).map(number).collect();
                if count > 3 {
                    got[3] = f32::NAN;
                }
                let before = got.clone();
                chain.apply(start, &mut got);
                for (i, (got, sum)) in got.into_iter().zip(before).enumerate() {
                    let at = start + i;
                    let product = (sum - runs[at / RUN]) * columns[at % ROW];
                    let want = memory[at] - product;
                    let want = if want.is_nan() { want } else { want.clamp(-900.0, 800.0) };
                    assert!(got == want || (got.is_nan() && want.is_nan()), "{at}: {got} {want}");
                }
            }
        }
    }
}
