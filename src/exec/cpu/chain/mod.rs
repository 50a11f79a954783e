//! Chains of epilogues: operations that follow each sum of a form. Each takes the result before it and a second operand.

mod bound;
mod columns;

use std::mem;
use std::ops::Range;

use bytemuck::cast_slice;
use smallvec::SmallVec;

use self::bound::{BoundLink, BoundOperand, Segment, merged};
pub(crate) use self::columns::ColumnNumbers;
use self::columns::affine_clamp;
use crate::exec::cpu::operands::BoundInput;
use crate::exec::cpu::tape::{Machine, Span, TILE, Tape};
use crate::exec::cpu::vectors::links::{
    AffineClamp, LaneLink, Link, RowLinks, apply_links_in_place,
};

/// The operations of a chain, and the values that operands have in common.
#[derive(Debug)]
pub(crate) struct Chain {
    pub links: SmallVec<[(Link, LinkOperand); 4]>,
    /// Elements of a stretch, within which each value of a stretch is the same; `usize::MAX` without such values.
    pub stretch: usize,
    /// Elements of a row, each with the same values of columns; `usize::MAX` without such values.
    pub row: usize,
    pub of_stretches: Option<LinkTable>,
    pub of_columns: Option<LinkTable>,
}

/// The second operand of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkOperand {
    Constant(f32),
    /// The index of a root of the table of stretches.
    Stretch(usize),
    /// The index of a root of the table of columns.
    Column(usize),
    /// An operand's memory.
    Memory(u16),
}

/// Values that are computed once for each stretch or column.
#[derive(Debug)]
pub(crate) struct LinkTable {
    pub tape: Tape,
    /// The axes of the out space of the values.
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
            machine.run(&span);
            for (at, values) in values.iter_mut().enumerate() {
                values.extend_from_slice(cast_slice(machine.root(at, &span)));
            }
        }
        values
    }
}

/// A chain whose operands are bound.
pub(crate) struct BoundChain<'a> {
    links: Vec<BoundLink<'a>>,
    stretch: usize,
    row: usize,
}

impl Chain {
    /// True if each operand is a number, or lies in memory as the sums do.
    pub fn lies_in_memory(&self) -> bool {
        self.of_stretches.is_none() && self.of_columns.is_none()
    }

    /// Binds the operands: those of the out space, and the same through the axes of each table.
    pub fn bind<'a>(
        &self,
        inputs: &[Option<BoundInput<'a>>],
        through: impl Fn(&Range<usize>) -> Vec<Option<BoundInput<'a>>>,
    ) -> BoundChain<'a> {
        let values = |table: &Option<LinkTable>| {
            table.as_ref().map(|table| table.values(&through(&table.axes))).unwrap_or_default()
        };
        let (mut of_stretches, mut of_columns) =
            (values(&self.of_stretches), values(&self.of_columns));
        let bound = |&(op, operand): &(Link, LinkOperand)| {
            let operand = match operand {
                LinkOperand::Constant(number) => BoundOperand::Constant(number),
                LinkOperand::Stretch(at) => {
                    BoundOperand::Stretches(mem::take(&mut of_stretches[at]))
                }
                LinkOperand::Column(at) => BoundOperand::Columns(mem::take(&mut of_columns[at])),
                LinkOperand::Memory(at) => match &inputs[usize::from(at)] {
                    Some(BoundInput::Memory(words)) => BoundOperand::Memory(cast_slice(words)),
                    _ => unreachable!("like steps have the same operands in memory"),
                },
            };
            (op, operand)
        };
        BoundChain {
            links: merged(self.links.iter().map(bound)),
            stretch: self.stretch,
            row: self.row,
        }
    }
}

impl BoundChain<'_> {
    /// Replaces `sums`, which begin at position `start` of the out space, by the results of the chain.
    pub fn apply(&self, start: usize, sums: &mut [f32]) {
        let (mut at, end) = (start, start + sums.len());
        let mut links = SmallVec::<[LaneLink<'_>; 8]>::new();
        while at < end {
            let segment = self.segment(at, end);
            links.clear();
            for link in &self.links {
                links.push(link.of_segment(&segment));
            }
            apply_links_in_place(&links, 0, &mut sums[at - start..segment.range.end - start]);
            at = segment.range.end;
        }
    }

    /// Returns the chain as one merged link, if it has no other link and `range` lies in one stretch.
    pub fn as_affine_clamp(&self, range: Range<usize>) -> Option<AffineClamp> {
        let [BoundLink::AffineClamp(link)] = &self.links[..] else { return None };
        let segment = self.segment(range.start, range.end);
        (segment.range == range).then(|| link.of_stretch(segment.stretch))
    }

    /// Returns the chain as one affine map with a clamp over each row of `columns`, if it is one.
    pub fn as_affine_of_columns(&self, columns: usize) -> Option<AffineClamp<ColumnNumbers<'_>>> {
        let is_of_rows = self.stretch == usize::MAX && [columns, usize::MAX].contains(&self.row);
        if is_of_rows { affine_clamp(&self.links) } else { None }
    }

    /// The operands of `rows` rows of `columns` sums each, the first of which is at position `start` of the out space, and
    /// which begin `stride` positions apart. `None` if an operand changes within a row.
    pub fn of_rows(
        &self,
        start: usize,
        [rows, columns]: [usize; 2],
        stride: usize,
    ) -> Option<RowLinks<'_>> {
        let mut links = Vec::with_capacity(rows * self.links.len());
        for at in (start..).step_by(stride.max(1)).take(rows) {
            let segment = self.segment(at, at + columns);
            if segment.range.end < at + columns {
                return None;
            }
            links.extend(self.links.iter().map(|link| link.of_segment(&segment)));
        }
        Some(RowLinks::new(links, self.links.len(), columns))
    }

    /// The first positions of `start..end`.
    fn segment(&self, start: usize, end: usize) -> Segment {
        let (mut range, mut stretch, mut column) = (start..end, 0, 0);
        if self.stretch != usize::MAX {
            stretch = start / self.stretch;
            range.end = range.end.min((stretch + 1) * self.stretch);
        }
        if self.row != usize::MAX {
            column = start % self.row;
            range.end = range.end.min(start + self.row - column);
        }
        Segment { range, stretch, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_any_number_take_their_own_operands() {
        const STRETCH: usize = 37;
        const ROW: usize = 23;
        let len = 5 * STRETCH * ROW;
        let number = |at: usize| ((at * 29) % 101) as f32 - 50.0;
        let memory: Vec<f32> = (0..len).map(|at| number(at + 7)).collect();
        let stretches: Vec<f32> = (0..len.div_ceil(STRETCH)).map(|at| number(at + 3)).collect();
        let columns: Vec<f32> = (0..ROW).map(|at| number(at + 5)).collect();
        let chain = BoundChain {
            links: merged(
                [
                    (Link::Sub, BoundOperand::Stretches(stretches.clone())),
                    (Link::Mul, BoundOperand::Columns(columns.clone())),
                    (Link::SubFrom, BoundOperand::Memory(&memory)),
                    (Link::Max, BoundOperand::Constant(-900.0)),
                    (Link::MinOf, BoundOperand::Constant(800.0)),
                ]
                .into_iter(),
            ),
            stretch: STRETCH,
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
                    let product = (sum - stretches[at / STRETCH]) * columns[at % ROW];
                    let want = memory[at] - product;
                    let want = if want.is_nan() { want } else { want.clamp(-900.0, 800.0) };
                    assert!(got == want || (got.is_nan() && want.is_nan()), "{at}: {got} {want}");
                }
            }
        }
    }

    #[test]
    fn blocks_of_rows_take_the_operands_of_their_positions() {
        const ROWS: usize = 13;
        let number = |at: usize| ((at * 29) % 101) as f32 - 50.0;
        for columns in [16, 17, 49, 96, 150] {
            let len = 2 * ROWS * columns;
            let memory: Vec<f32> = (0..len).map(|at| number(at + 7)).collect();
            let chain = BoundChain {
                links: merged(
                    [
                        (
                            Link::Sub,
                            BoundOperand::Stretches(
                                (0..2 * ROWS).map(|at| number(at + 3)).collect(),
                            ),
                        ),
                        (Link::Mul, BoundOperand::Constant(0.5)),
                        (Link::Max, BoundOperand::Constant(-20.0)),
                        (
                            Link::Mul,
                            BoundOperand::Columns((0..columns).map(|at| number(at + 5)).collect()),
                        ),
                        (Link::Add, BoundOperand::Memory(&memory)),
                        (Link::Max, BoundOperand::Constant(-90.0)),
                    ]
                    .into_iter(),
                ),
                stretch: columns,
                row: columns,
            };
            let sums: Vec<f32> = (0..len).map(number).collect();
            let mut want = sums.clone();
            chain.apply(0, &mut want);
            // Some columns of the second product's rows.
            let (first, width) = (columns / 3, columns - columns / 3);
            let start = ROWS * columns + first;
            let links = chain.of_rows(start, [ROWS, width], columns).unwrap();
            let mut got = sums.clone();
            for [row, rows] in [[0, 5], [5, ROWS - 5]] {
                for [column, some] in [[0, width / 2], [width / 2, width - width / 2]] {
                    let from = got[start + row * columns + column..].as_mut_ptr();
                    // SAFETY: all rows exist.
                    unsafe { links.finish([row, rows], [column, some], from, columns) };
                }
            }
            for (at, got) in got.into_iter().enumerate() {
                let done = at >= ROWS * columns && at % columns >= first;
                assert_eq!(got, if done { want[at] } else { sums[at] }, "{columns}: {at}");
            }
            assert!(
                chain.of_rows(start, [1, columns], columns).is_none(),
                "values of two stretches"
            );
        }
    }
}
