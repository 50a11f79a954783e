//! Links: binary operations one after another, over lanes that stay in registers. Each rounds as it would alone.

mod link;
mod loops;

pub(crate) use self::link::{AffineClamp, LaneLink, LaneOperand, Link};
use self::loops::any_links;
use crate::exec::cpu::vectors::by_processor::loops;

/// The links of some rows of sums. Each row has operands of its own.
pub(crate) struct RowLinks<'s> {
    /// `per_row` links for each row.
    links: Vec<LaneLink<'s>>,
    per_row: usize,
    columns: usize,
}

impl<'s> RowLinks<'s> {
    /// `links` has `per_row` links for each row of `columns` sums.
    pub fn new(links: Vec<LaneLink<'s>>, per_row: usize, columns: usize) -> Self {
        assert!(
            per_row > 0
                && links.len().is_multiple_of(per_row)
                && links.iter().all(|link| link.reaches(columns))
        );
        Self { links, per_row, columns }
    }

    /// Replaces the sums of a block by the results of its links: `rows` rows from row `row` on, and of each the `width`
    /// columns from `column` on. The first sum is at `sums`, and the rows of sums lie `stride` elements apart.
    ///
    /// # Safety
    /// The sums of the block exist, nothing else reads or writes them meanwhile, and no operand lies among them.
    pub unsafe fn finish(
        &self,
        [row, rows]: [usize; 2],
        [column, width]: [usize; 2],
        sums: *mut f32,
        stride: usize,
    ) {
        assert!(column + width <= self.columns);
        let by = Loops::native();
        let links = &self.links[row * self.per_row..(row + rows) * self.per_row];
        for (row, links) in links.chunks_exact(self.per_row).enumerate() {
            let sums = sums.wrapping_add(row * stride);
            // SAFETY: the processor has the instructions (`Loops::all`), operands have all columns (`new`), and the rest is
            // as the caller promises.
            unsafe { (by.links)(links, column, sums, sums, width) }
        }
    }
}

loops! {
    /// The loops for the instructions of one kind of processor.
    struct Loops {}

    // Vectors at a time.
    const MANY = [8, 4, 4];

    /// Applies links to `len` lanes at `from`, and writes the results to `to`. Operands begin at lane `first`.
    ///
    /// # Safety
    /// As for [`apply_links_by`].
    unsafe fn links(
        links: &[LaneLink<'_>],
        first: usize,
        from: *const f32,
        to: *mut f32,
        len: usize,
    ) = any_links::<V, MANY>(links, first, from, to, len);
}

/// Writes to `to` the results of `links`, of which the first takes the lanes of `from`.
pub(crate) fn apply_links(links: &[LaneLink<'_>], from: &[f32], to: &mut [f32]) {
    assert!(from.len() >= to.len(), "each lane has a first value");
    // SAFETY: both slices have the lanes.
    unsafe { apply_links_by(Loops::native(), links, from.as_ptr(), to.as_mut_ptr(), to.len()) }
}

/// Replaces `lanes` by the results of `links`, whose operands have a lane for each from lane `first` on.
pub(crate) fn apply_links_in_place(links: &[LaneLink<'_>], first: usize, lanes: &mut [f32]) {
    let (start, len) = (lanes.as_mut_ptr(), lanes.len());
    assert!(links.iter().all(|link| link.reaches(first + len)), "an operand has all lanes");
    // SAFETY: the processor has the instructions (`Loops::all`), the operands have all lanes, and so has the slice.
    unsafe { (Loops::native().links)(links, first, start, start, len) }
}

/// # Safety
/// `by` is one of [`Loops::all`]. `len` lanes exist at `from` and at `to`, which are the same or lie apart, and nothing else
/// accesses those at `to` meanwhile.
unsafe fn apply_links_by(
    by: &Loops,
    links: &[LaneLink<'_>],
    from: *const f32,
    to: *mut f32,
    len: usize,
) {
    assert!(links.iter().all(|link| link.reaches(len)), "an operand has all lanes");
    // SAFETY: the operands have all lanes, and the rest is as the caller promises.
    unsafe { (by.links)(links, 0, from, to, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [f32; 7] = [-0.0, 0.0, 1.5, -2.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

    /// Checks the results of `links` by the loops of all processors, in a slice of its own and in place. `one` is the
    /// result of a lane at a position.
    fn check(links: &[LaneLink<'_>], from: &[f32], one: impl Fn(f32, usize) -> f32) {
        for by in Loops::all() {
            let mut to = vec![9.0; from.len()];
            let mut both = from.to_vec();
            // SAFETY: all have the lanes.
            unsafe {
                apply_links_by(by, links, from.as_ptr(), to.as_mut_ptr(), to.len());
                apply_links_by(by, links, both.as_ptr(), both.as_mut_ptr(), both.len());
            }
            for (at, &from) in from.iter().enumerate() {
                let want = one(from, at);
                for got in [to[at], both[at]] {
                    let same = got.to_bits() == want.to_bits();
                    assert!(same || (got.is_nan() && want.is_nan()), "{at}: {got} for {want}");
                }
            }
        }
    }

    /// Some numbers of lanes, with each number of vectors that may be left over.
    fn lens() -> impl Iterator<Item = usize> {
        let all = [0, 1, 3, 4, 5, 15, 16, 17].into_iter().chain((31..=145).step_by(6));
        all.step_by(if cfg!(miri) { 5 } else { 1 })
    }

    #[test]
    fn each_operation_is_that_of_single_lanes_by_the_instructions_of_any_processor() {
        use Link::{Add, Max, MaxOf, Min, MinOf, Mul, Sub, SubFrom};
        for op in [Add, Mul, Sub, SubFrom, Min, MinOf, Max, MaxOf] {
            for len in lens() {
                let from: Vec<f32> = (0..len).map(|at| NUMBERS[at % 7]).collect();
                let other: Vec<f32> = (0..len).map(|at| NUMBERS[at / 7 % 7]).collect();
                for number in NUMBERS {
                    let link = LaneLink::One(op, LaneOperand::Splat(number));
                    check(&[link], &from, |t, _| op.of_lanes(t, number));
                }
                let link = LaneLink::One(op, LaneOperand::Lanes(&other));
                check(&[link], &from, |t, at| op.of_lanes(t, other[at]));
                let link = LaneLink::One(op, LaneOperand::Result);
                check(&[link], &from, |t, _| op.of_lanes(t, t));
            }
        }
    }

    #[test]
    fn links_follow_each_other() {
        let clamp = AffineClamp { sub: 1.0, mul: -3.0, add: -0.0, low: -4.0, high: 7.0 };
        for len in lens() {
            let from: Vec<f32> = (0..len).map(|at| NUMBERS[at % 7] + at as f32).collect();
            let other: Vec<f32> = (0..len).map(|at| NUMBERS[at / 7 % 7]).collect();
            let links = [
                LaneLink::One(Link::Mul, LaneOperand::Result),
                LaneLink::AffineClamp(clamp),
                LaneLink::One(Link::SubFrom, LaneOperand::Lanes(&other)),
                LaneLink::AffineClamp(AffineClamp::IDENTITY),
            ];
            check(&links, &from, |t, at| {
                let t = (t * t - 1.0) * -3.0 + -0.0;
                let t = Link::Min.of_lanes(Link::Max.of_lanes(t, -4.0), 7.0);
                other[at] - t
            });
        }
    }
}
