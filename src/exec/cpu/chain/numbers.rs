//! Links by numbers, merged to one link.

use super::{Bound, BoundLink};
use crate::exec::cpu::vectors::links::{Link, NumberLinks};

/// Links by numbers, some of which stretches have of their own.
pub(super) struct BoundNumbers {
    constants: NumberLinks,
    sub: Option<Vec<f32>>,
    mul: Option<Vec<f32>>,
    add: Option<Vec<f32>>,
}

/// Merges neighbouring links by numbers that stand in the order of [`NumberLinks`].
pub(super) fn merged<'a>(links: impl Iterator<Item = (Link, Bound<'a>)>) -> Vec<BoundLink<'a>> {
    /// Fewest links that are merged: two take as long as all five.
    const FEWEST: usize = 3;
    let mut links = links.peekable();
    let mut merged = Vec::new();
    while let Some(link) = links.next() {
        let mut last = place(&link);
        let mut run = vec![link];
        while last.is_some()
            && let Some(next) = links.next_if(|next| place(next) > last)
        {
            last = place(&next);
            run.push(next);
        }
        if run.len() >= FEWEST {
            merged.push(BoundLink::Numbers(BoundNumbers::of(run)));
        } else {
            merged.extend(run.into_iter().map(|(op, operand)| BoundLink::One(op, operand)));
        }
    }
    merged
}

/// The place of a link among [`NumberLinks`], if it is one of them.
fn place((op, operand): &(Link, Bound<'_>)) -> Option<usize> {
    match (op, operand) {
        (Link::Sub, Bound::Constant(_) | Bound::Stretches(_)) => Some(0),
        (Link::Mul, Bound::Constant(_) | Bound::Stretches(_)) => Some(1),
        (Link::Add, Bound::Constant(_) | Bound::Stretches(_)) => Some(2),
        (Link::Max, Bound::Constant(number)) if !number.is_nan() => Some(3),
        (Link::Min, Bound::Constant(number)) if !number.is_nan() => Some(4),
        _ => None,
    }
}

impl BoundNumbers {
    /// Merges links that have [places](place), each another.
    fn of(links: Vec<(Link, Bound<'_>)>) -> Self {
        let mut all = Self { constants: NumberLinks::NONE, sub: None, mul: None, add: None };
        for link in links {
            match link {
                (Link::Sub, Bound::Constant(number)) => all.constants.sub = number,
                (Link::Mul, Bound::Constant(number)) => all.constants.mul = number,
                (Link::Add, Bound::Constant(number)) => all.constants.add = number,
                (Link::Max, Bound::Constant(number)) => all.constants.least = number,
                (Link::Min, Bound::Constant(number)) => all.constants.most = number,
                (Link::Sub, Bound::Stretches(values)) => all.sub = Some(values),
                (Link::Mul, Bound::Stretches(values)) => all.mul = Some(values),
                (Link::Add, Bound::Stretches(values)) => all.add = Some(values),
                _ => unreachable!("the link has a place"),
            }
        }
        all
    }

    pub fn of_stretch(&self, stretch: usize) -> NumberLinks {
        let number = |values: &Option<Vec<f32>>, constant| {
            values.as_ref().map_or(constant, |values| values[stretch])
        };
        NumberLinks {
            sub: number(&self.sub, self.constants.sub),
            mul: number(&self.mul, self.constants.mul),
            add: number(&self.add, self.constants.add),
            ..self.constants
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::chain::BoundChain;
    use crate::exec::cpu::tape::math;

    #[test]
    fn links_by_numbers_are_merged_and_change_no_result() {
        use Link::{Add, Max, MaxOf, Min, Mul, Sub};
        const STRETCH: usize = 20;
        let numbers = [1.5, -0.0, f32::NAN, f32::INFINITY, 0.0, -2.0, 3.0];
        let stretches = || Bound::Stretches(numbers.to_vec());
        let all: [(Vec<(Link, Bound<'_>)>, usize); 6] = [
            (vec![(Sub, stretches()), (Mul, stretches()), (Add, stretches())], 1),
            (
                vec![
                    (Sub, stretches()),
                    (Mul, Bound::Constant(-3.0)),
                    (Add, stretches()),
                    (Max, Bound::Constant(0.0)),
                    (Min, Bound::Constant(6.0)),
                    (Add, stretches()),
                ],
                2,
            ),
            (vec![(Mul, stretches()), (Max, Bound::Constant(0.0)), (Min, Bound::Constant(6.0))], 1),
            (vec![(Add, stretches()), (Max, Bound::Constant(0.0))], 2),
            (vec![(Add, stretches()), (Mul, stretches()), (Sub, stretches())], 3),
            (vec![(Sub, stretches()), (Add, stretches()), (MaxOf, Bound::Constant(f32::NAN))], 3),
        ];
        let sums: Vec<f32> =
            (0..7 * STRETCH).map(|at| [-0.0, 4.0, f32::NAN, -1.0, 0.0, 9.0][at % 6]).collect();
        for (links, count) in all {
            let one = |sum: f32, at: usize| {
                links.iter().fold(sum, |t, (op, operand)| {
                    let z = match operand {
                        Bound::Constant(number) => *number,
                        Bound::Stretches(values) => values[at / STRETCH],
                        Bound::Columns(_) | Bound::Memory(_) => unreachable!(),
                    };
                    match op {
                        Sub => t - z,
                        Mul => t * z,
                        Add => t + z,
                        Max | MaxOf => math::max(t, z),
                        _ => math::min(t, z),
                    }
                })
            };
            let want: Vec<f32> = sums.iter().enumerate().map(|(at, &sum)| one(sum, at)).collect();
            let chain =
                BoundChain { links: merged(links.into_iter()), stretch: STRETCH, row: usize::MAX };
            assert_eq!(chain.links.len(), count);
            let mut got = sums.clone();
            chain.apply(0, &mut got);
            for (at, (got, want)) in got.into_iter().zip(want).enumerate() {
                let same = got.to_bits() == want.to_bits();
                assert!(same || (got.is_nan() && want.is_nan()), "{at}: {got} for {want}");
            }
        }
    }
}
