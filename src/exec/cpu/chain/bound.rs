//! Links whose operands are bound. Neighbours with numbers are merged to one affine map with a clamp.

use std::array;
use std::ops::Range;

use crate::exec::cpu::vectors::links::{AffineClamp, LaneLink, LaneOperand, Link};

/// Positions of the out space in one stretch and one row.
pub(super) struct Segment {
    pub range: Range<usize>,
    pub stretch: usize,
    /// The column of the first position.
    pub column: usize,
}

pub(super) enum BoundLink<'a> {
    One(Link, BoundOperand<'a>),
    AffineClamp(BoundAffineClamp),
}

pub(super) enum BoundOperand<'a> {
    Constant(f32),
    Stretches(Vec<f32>),
    Columns(Vec<f32>),
    Memory(&'a [f32]),
}

impl BoundLink<'_> {
    /// The link over the lanes of a segment.
    #[inline]
    pub fn of_segment(&self, segment: &Segment) -> LaneLink<'_> {
        let &Segment { ref range, stretch, column } = segment;
        match self {
            BoundLink::AffineClamp(link) => LaneLink::AffineClamp(link.of_stretch(stretch)),
            BoundLink::One(op, operand) => {
                let operand = match operand {
                    BoundOperand::Constant(number) => LaneOperand::Splat(*number),
                    BoundOperand::Stretches(values) => LaneOperand::Splat(values[stretch]),
                    BoundOperand::Columns(values) => LaneOperand::Lanes(&values[column..]),
                    BoundOperand::Memory(words) => LaneOperand::Lanes(&words[range.clone()]),
                };
                LaneLink::One(*op, operand)
            }
        }
    }
}

/// The numbers of an [`AffineClamp`], of which stretches may have some of their own.
pub(super) struct BoundAffineClamp {
    constants: [f32; 5],
    stretches: [Option<Vec<f32>>; 5],
}

/// Merges neighbouring links with numbers that stand in the order of [`AffineClamp`].
pub(super) fn merged<'a>(
    links: impl Iterator<Item = (Link, BoundOperand<'a>)>,
) -> Vec<BoundLink<'a>> {
    let mut links = links.peekable();
    let mut merged = Vec::new();
    while let Some((op, operand)) = links.next() {
        let Some(mut last) = position(op, &operand) else {
            merged.push(BoundLink::One(op, operand));
            continue;
        };
        let is_next = |last, (op, operand): &(Link, BoundOperand<'_>)| {
            position(*op, operand).is_some_and(|at| at > last)
        };
        if !links.peek().is_some_and(|next| is_next(last, next)) {
            merged.push(BoundLink::One(op, operand));
            continue;
        }
        let mut all = BoundAffineClamp::new();
        all.set(last, operand);
        while let Some((op, operand)) = links.next_if(|next| is_next(last, next)) {
            last = position(op, &operand).unwrap_or(last);
            all.set(last, operand);
        }
        merged.push(BoundLink::AffineClamp(all));
    }
    merged
}

/// The position of a link among those of an [`AffineClamp`], if it is one of them.
pub(super) fn position(op: Link, operand: &BoundOperand<'_>) -> Option<usize> {
    match (op, operand) {
        (Link::Sub, BoundOperand::Constant(_) | BoundOperand::Stretches(_)) => Some(0),
        (Link::Mul, BoundOperand::Constant(_) | BoundOperand::Stretches(_)) => Some(1),
        (Link::Add, BoundOperand::Constant(_) | BoundOperand::Stretches(_)) => Some(2),
        (Link::Max, BoundOperand::Constant(number)) if !number.is_nan() => Some(3),
        (Link::Min, BoundOperand::Constant(number)) if !number.is_nan() => Some(4),
        _ => None,
    }
}

impl BoundAffineClamp {
    fn new() -> Self {
        Self { constants: AffineClamp::IDENTITY.numbers(), stretches: Default::default() }
    }

    /// Sets the operand of the link at a position.
    fn set(&mut self, at: usize, operand: BoundOperand<'_>) {
        match operand {
            BoundOperand::Constant(number) => self.constants[at] = number,
            BoundOperand::Stretches(values) => self.stretches[at] = Some(values),
            BoundOperand::Columns(_) | BoundOperand::Memory(_) => {
                unreachable!("links with lanes have no position")
            }
        }
    }

    /// The numbers, if no stretch has others.
    pub fn constants(&self) -> Option<[f32; 5]> {
        self.stretches.iter().all(Option::is_none).then_some(self.constants)
    }

    pub fn of_stretch(&self, stretch: usize) -> AffineClamp {
        let [sub, mul, add, low, high] = array::from_fn(|at| {
            self.stretches[at].as_ref().map_or(self.constants[at], |values| values[stretch])
        });
        AffineClamp { sub, mul, add, low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::chain::BoundChain;

    #[test]
    fn merged_links_change_no_result() {
        use Link::{Add, Max, MaxOf, Min, Mul, Sub};
        const STRETCH: usize = 20;
        let numbers = [1.5, -0.0, f32::NAN, f32::INFINITY, 0.0, -2.0, 3.0];
        let stretches = || BoundOperand::Stretches(numbers.to_vec());
        let all: [(Vec<(Link, BoundOperand<'_>)>, usize); 6] = [
            (vec![(Sub, stretches()), (Mul, stretches()), (Add, stretches())], 1),
            (
                vec![
                    (Sub, stretches()),
                    (Mul, BoundOperand::Constant(-3.0)),
                    (Add, stretches()),
                    (Max, BoundOperand::Constant(0.0)),
                    (Min, BoundOperand::Constant(6.0)),
                    (Add, stretches()),
                ],
                2,
            ),
            (
                vec![
                    (Mul, stretches()),
                    (Max, BoundOperand::Constant(0.0)),
                    (Min, BoundOperand::Constant(6.0)),
                ],
                1,
            ),
            (vec![(Add, stretches()), (Max, BoundOperand::Constant(0.0))], 1),
            (vec![(Add, stretches()), (Mul, stretches()), (Sub, stretches())], 3),
            (
                vec![
                    (Sub, stretches()),
                    (Add, stretches()),
                    (MaxOf, BoundOperand::Constant(f32::NAN)),
                ],
                2,
            ),
        ];
        let sums: Vec<f32> =
            (0..7 * STRETCH).map(|at| [-0.0, 4.0, f32::NAN, -1.0, 0.0, 9.0][at % 6]).collect();
        for (links, count) in all {
            let one = |sum: f32, at: usize| {
                links.iter().fold(sum, |t, (op, operand)| {
                    let z = match operand {
                        BoundOperand::Constant(number) => *number,
                        BoundOperand::Stretches(values) => values[at / STRETCH],
                        BoundOperand::Columns(_) | BoundOperand::Memory(_) => unreachable!(),
                    };
                    op.of_lanes(t, z)
                })
            };
            let want: Vec<f32> = sums.iter().enumerate().map(|(at, &sum)| one(sum, at)).collect();
            let chain =
                BoundChain { links: merged(links.into_iter()), stretch: STRETCH, row: usize::MAX };
            assert_eq!(chain.links.len(), count);
            assert_eq!(chain.as_affine_clamp(STRETCH..2 * STRETCH).is_some(), count == 1);
            assert!(chain.as_affine_clamp(1..STRETCH + 1).is_none(), "two stretches");
            let mut got = sums.clone();
            chain.apply(0, &mut got);
            for (at, (got, want)) in got.into_iter().zip(want).enumerate() {
                let same = got.to_bits() == want.to_bits();
                assert!(same || (got.is_nan() && want.is_nan()), "{at}: {got} for {want}");
            }
        }
    }
}
