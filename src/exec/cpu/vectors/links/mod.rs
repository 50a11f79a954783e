//! Links: binary operations one after another, over lanes that stay in registers. Each rounds as it would alone.

mod loops;

use std::sync::LazyLock;

use super::SimdVector;
use crate::expr::Binary;

/// A primitive of a result `t` and another argument `z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Add,
    Mul,
    /// t − z.
    Sub,
    /// z − t.
    SubFrom,
    /// min(t, z). The order decides which zero is the lesser.
    Min,
    /// min(z, t).
    MinOf,
    Max,
    MaxOf,
}

impl Link {
    /// Returns `op` as a link. `t_is_first` says that `t` is its first argument.
    pub fn of(op: Binary, t_is_first: bool) -> Option<Self> {
        Some(match (op, t_is_first) {
            (Binary::Add, _) => Self::Add,
            (Binary::Mul, _) => Self::Mul,
            (Binary::Sub, true) => Self::Sub,
            (Binary::Sub, false) => Self::SubFrom,
            (Binary::Min, true) => Self::Min,
            (Binary::Min, false) => Self::MinOf,
            (Binary::Max, true) => Self::Max,
            (Binary::Max, false) => Self::MaxOf,
            _ => return None,
        })
    }
}

/// An operation over the lanes of a segment, or several.
#[derive(Clone, Copy)]
pub(crate) enum SegmentLink<'s> {
    One(Link, SegmentOperand<'s>),
    Numbers(NumberLinks),
}

/// The second operand of a link.
#[derive(Clone, Copy)]
pub(crate) enum SegmentOperand<'s> {
    Splat(f32),
    Lanes(&'s [f32]),
    /// The result `t` itself.
    Result,
}

/// Five links by numbers, one after the other: t − `sub`, t · `mul`, t + `add`, max(t, `least`), min(t, `most`). Batch
/// norms with a clip are such links. The numbers of [`NONE`](Self::NONE) change nothing. `least` and `most` are no NaN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberLinks {
    pub sub: f32,
    pub mul: f32,
    pub add: f32,
    pub least: f32,
    pub most: f32,
}

impl NumberLinks {
    pub const NONE: Self =
        Self { sub: 0.0, mul: 1.0, add: -0.0, least: f32::NEG_INFINITY, most: f32::INFINITY };

    /// Replaces `values` by the results of the links.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    pub unsafe fn apply<V: SimdVector, const N: usize>(&self, values: &mut [V; N]) {
        let &Self { sub, mul, add, least, most } = self;
        // SAFETY: as the caller promises.
        unsafe {
            let [sub, mul, add] = [V::splat(sub), V::splat(mul), V::splat(add)];
            let [least, most] = [V::splat(least), V::splat(most)];
            for i in 0..N {
                values[i] = values[i].sub(sub).mul(mul).add(add).greater(least).lesser(most);
            }
        }
    }
}

impl SegmentLink<'_> {
    /// Returns whether the operand has at least `len` lanes, or is no slice.
    fn reaches(&self, len: usize) -> bool {
        !matches!(self, Self::One(_, SegmentOperand::Lanes(lanes)) if lanes.len() < len)
    }
}

/// The operations over some rows of sums, each with operands of its own.
pub(crate) struct RowLinks<'s> {
    /// The links of all rows, as many for each.
    links: Vec<SegmentLink<'s>>,
    per_row: usize,
    columns: usize,
}

impl<'s> RowLinks<'s> {
    /// The `links` of all rows of so many `columns`, `per_row` for each.
    pub fn new(links: Vec<SegmentLink<'s>>, per_row: usize, columns: usize) -> Self {
        assert!(
            per_row > 0
                && links.len().is_multiple_of(per_row)
                && links.iter().all(|link| link.reaches(columns))
        );
        Self { links, per_row, columns }
    }

    /// Replaces the sums of a block by the results of the chain: `rows` rows from row `row` on, and of each the `width`
    /// columns from `column` on. The first sum is at `sums`, and the rows of sums lie `stride` elements apart.
    ///
    /// # Safety
    /// The sums of the block exist, and nothing else reads or writes them meanwhile.
    pub unsafe fn finish(
        &self,
        [row, rows]: [usize; 2],
        [column, width]: [usize; 2],
        sums: *mut f32,
        stride: usize,
    ) {
        static NATIVE: LazyLock<RunRows> = LazyLock::new(|| all()[0].1);
        assert!(column + width <= self.columns);
        let links = &self.links[row * self.per_row..(row + rows) * self.per_row];
        let block = Block { links, per_row: self.per_row, column, width, sums, stride };
        // SAFETY: the processor has the instructions (`all`), operands have all columns (`new`), and the rest is as the
        // caller promises.
        unsafe { (*NATIVE)(&block) }
    }
}

/// Sums of some rows, and the links of each.
struct Block<'s> {
    links: &'s [SegmentLink<'s>],
    per_row: usize,
    column: usize,
    width: usize,
    sums: *mut f32,
    stride: usize,
}

/// The loop for the instructions of one kind of processor: from the first lane of `from` to the first of `to`, over so
/// many lanes.
type RunLinks = unsafe fn(&[SegmentLink<'_>], from: *const f32, to: *mut f32, len: usize);

/// Writes to `to` the results of `links`, of which the first takes the lanes of `from`.
pub(crate) fn run_links(links: &[SegmentLink<'_>], from: &[f32], to: &mut [f32]) {
    assert!(from.len() >= to.len(), "each lane has a first value");
    // SAFETY: both slices have the lanes.
    unsafe { run_links_by(native(), links, from.as_ptr(), to.as_mut_ptr(), to.len()) }
}

/// Replaces `lanes` by the results of `links`.
pub(crate) fn run_links_in_place(links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    let (first, len) = (lanes.as_mut_ptr(), lanes.len());
    // SAFETY: the slice has the lanes.
    unsafe { run_links_by(native(), links, first, first, len) }
}

fn native() -> RunLinks {
    static NATIVE: LazyLock<RunLinks> = LazyLock::new(|| all()[0].0);
    *NATIVE
}

/// # Safety
/// `len` lanes exist at `from` and at `to`, which are the same or lie apart.
unsafe fn run_links_by(
    by: RunLinks,
    links: &[SegmentLink<'_>],
    from: *const f32,
    to: *mut f32,
    len: usize,
) {
    assert!(links.iter().all(|link| link.reaches(len)), "an operand has all lanes");
    // SAFETY: the processor has the instructions of `by` (`all`), the operands have all lanes, and the rest is as the
    // caller promises.
    unsafe { by(links, from, to, len) }
}

/// The loop over the rows of a block.
type RunRows = unsafe fn(&Block<'_>);

/// The loops that this processor can run, the best first.
fn all() -> Vec<(RunLinks, RunRows)> {
    let mut all: Vec<(RunLinks, RunRows)> = Vec::new();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use crate::exec::cpu::vectors;
        if vectors::has_avx512() {
            all.push((avx512::links, avx512::rows));
        }
        if vectors::has_avx2() {
            all.push((avx2::links, avx2::rows));
        }
    }
    all.push((plain::links, plain::rows));
    all
}

/// The loops for vectors of a kind, so many vectors at a time.
macro_rules! loops {
    ($name:ident, $vector:path, $(($features:literal),)? $many:literal) => {
        mod $name {
            use crate::exec::cpu::vectors::links::loops::{any_links, any_rows};
            use crate::exec::cpu::vectors::links::{Block, SegmentLink};

            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn links(
                links: &[SegmentLink<'_>],
                from: *const f32,
                to: *mut f32,
                len: usize,
            ) {
                // SAFETY: as the caller promises.
                unsafe { any_links::<$vector, $many>(links, 0, from, to, len) }
            }

            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn rows(block: &Block<'_>) {
                // SAFETY: as the caller promises.
                unsafe { any_rows::<$vector, $many>(block) }
            }
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
loops!(avx512, std::arch::x86_64::__m512, ("avx512f,avx2,fma"), 8);
#[cfg(all(target_arch = "x86_64", not(miri)))]
loops!(avx2, std::arch::x86_64::__m256, ("avx2,fma"), 4);
loops!(plain, crate::exec::cpu::vectors::Plain, 4);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::tape::math;

    /// The result of an operation on one lane.
    fn one(op: Link, t: f32, z: f32) -> f32 {
        match op {
            Link::Add => t + z,
            Link::Mul => t * z,
            Link::Sub => t - z,
            Link::SubFrom => z - t,
            Link::Min => math::min(t, z),
            Link::MinOf => math::min(z, t),
            Link::Max => math::max(t, z),
            Link::MaxOf => math::max(z, t),
        }
    }

    #[test]
    fn each_operation_is_that_of_single_lanes_by_the_instructions_of_any_processor() {
        use Link::{Add, Max, MaxOf, Min, MinOf, Mul, Sub, SubFrom};
        let numbers = [-0.0, 0.0, 1.5, -2.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for op in [Add, Mul, Sub, SubFrom, Min, MinOf, Max, MaxOf] {
            for len in [1, 4, 5, 15, 16, 17, 128, 140] {
                let sums: Vec<f32> = (0..len).map(|at| numbers[at % 7]).collect();
                let other: Vec<f32> = (0..len).map(|at| numbers[at / 7 % 7]).collect();
                let operands = numbers.map(SegmentOperand::Splat);
                let lanes = [SegmentOperand::Lanes(&other), SegmentOperand::Result];
                for operand in operands.into_iter().chain(lanes) {
                    for (by, _) in all() {
                        let mut got = vec![9.0; len];
                        let (from, to) = (sums.as_ptr(), got.as_mut_ptr());
                        // SAFETY: both have the lanes.
                        unsafe {
                            run_links_by(by, &[SegmentLink::One(op, operand)], from, to, len)
                        };
                        for (at, got) in got.into_iter().enumerate() {
                            let z = match operand {
                                SegmentOperand::Splat(number) => number,
                                SegmentOperand::Lanes(lanes) => lanes[at],
                                SegmentOperand::Result => sums[at],
                            };
                            let want = one(op, sums[at], z);
                            let same = got.to_bits() == want.to_bits();
                            assert!(
                                same || (got.is_nan() && want.is_nan()),
                                "{op:?}: {got} {want}"
                            );
                        }
                    }
                }
            }
        }
    }
}
