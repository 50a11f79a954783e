//! Chains that are one affine map with a clamp, whose numbers may be those of each column.

use super::bound::{BoundLink, BoundOperand, position};
use crate::exec::cpu::vectors::links::{AffineClamp, Link};

/// A number of an [`AffineClamp`], of all columns or of each.
#[derive(Clone, Copy)]
pub(crate) enum ColumnNumbers<'a> {
    One(f32),
    Each(&'a [f32]),
}

impl ColumnNumbers<'_> {
    /// Returns whether there is a number for each of so many columns.
    pub fn reaches(&self, columns: usize) -> bool {
        !matches!(self, Self::Each(numbers) if numbers.len() < columns)
    }
}

/// The links as one affine map with a clamp, if they stand in its order.
pub(super) fn affine_clamp<'a>(
    links: &'a [BoundLink<'_>],
) -> Option<AffineClamp<ColumnNumbers<'a>>> {
    let identity = AffineClamp::IDENTITY.numbers();
    let mut numbers = identity.map(ColumnNumbers::One);
    let mut next = 0;
    let mut set = |at: usize, number| {
        let is_next = at >= next;
        (numbers[at], next) = (number, at + 1);
        is_next.then_some(())
    };
    for link in links {
        match link {
            BoundLink::One(op, BoundOperand::Columns(columns)) => {
                let at = [Link::Sub, Link::Mul, Link::Add].iter().position(|link| link == op)?;
                set(at, ColumnNumbers::Each(columns))?;
            }
            BoundLink::One(op, operand) => {
                let BoundOperand::Constant(number) = operand else { return None };
                set(position(*op, operand)?, ColumnNumbers::One(*number))?;
            }
            BoundLink::AffineClamp(clamp) => {
                let constants = clamp.constants()?;
                let changes = |&at: &usize| constants[at].to_bits() != identity[at].to_bits();
                for at in (0..constants.len()).filter(changes) {
                    set(at, ColumnNumbers::One(constants[at]))?;
                }
            }
        }
    }
    let [sub, mul, add, low, high] = numbers;
    Some(AffineClamp { sub, mul, add, low, high })
}
