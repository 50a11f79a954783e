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
        if at < next {
            return None;
        }
        (numbers[at], next) = (number, at + 1);
        Some(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::chain::bound::merged;

    #[test]
    fn links_in_order_are_one_affine_map_with_a_clamp() {
        let columns = || BoundOperand::Columns(vec![1.0, 2.0]);
        let constant = BoundOperand::Constant;
        let is_one = |links: Vec<(Link, BoundOperand<'static>)>| {
            affine_clamp(&merged(links.into_iter())).is_some()
        };
        assert!(is_one(vec![
            (Link::Sub, columns()),
            (Link::Mul, columns()),
            (Link::Add, constant(3.0)),
            (Link::Max, constant(0.0)),
            (Link::Min, constant(6.0)),
        ]));
        assert!(is_one(vec![(Link::Add, columns())]) && is_one(vec![(Link::Max, constant(0.0))]));
        assert!(!is_one(vec![(Link::Mul, columns()), (Link::Sub, columns())]), "another order");
        assert!(!is_one(vec![(Link::Add, columns()), (Link::Add, constant(1.0))]), "twice");
        assert!(!is_one(vec![(Link::Max, columns())]), "no bounds of columns");
        assert!(!is_one(vec![(Link::Max, constant(f32::NAN))]), "a bound that is NaN");
        assert!(!is_one(vec![(Link::Add, BoundOperand::Stretches(vec![1.0]))]));
        let memory: &[f32] = &[1.0];
        assert!(!is_one(vec![(Link::Add, BoundOperand::Memory(memory))]));
        let links = merged([(Link::Mul, columns()), (Link::Add, constant(3.0))].into_iter());
        let AffineClamp { sub, mul, add, .. } = affine_clamp(&links).unwrap();
        assert!(matches!(mul, ColumnNumbers::Each([1.0, 2.0])), "the numbers of all columns");
        assert!(matches!((sub, add), (ColumnNumbers::One(0.0), ColumnNumbers::One(3.0))));
    }
}
