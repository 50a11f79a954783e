//! Links: binary operations one after another, over lanes that stay in registers. Each rounds as it would alone.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

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

/// An operation over the lanes of a segment.
#[derive(Clone, Copy)]
pub(crate) struct SegmentLink<'s> {
    pub op: Link,
    pub operand: SegmentOperand<'s>,
}

#[derive(Clone, Copy)]
pub(crate) enum SegmentOperand<'s> {
    Splat(f32),
    Lanes(&'s [f32]),
    /// The result `t` itself.
    Result,
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
        let lanes = |link: &SegmentLink<'_>| match link.operand {
            SegmentOperand::Splat(_) | SegmentOperand::Result => true,
            SegmentOperand::Lanes(operand) => operand.len() >= columns,
        };
        assert!(per_row > 0 && links.len().is_multiple_of(per_row) && links.iter().all(lanes));
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
    for link in links {
        if let SegmentOperand::Lanes(operand) = link.operand {
            assert!(operand.len() >= len, "an operand has all lanes");
        }
    }
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
            use crate::exec::cpu::vectors::links::{Block, SegmentLink, any_links, any_rows};

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

/// Replaces the sums of all rows of `block` by the results of their links.
///
/// # Safety
/// The processor has the instructions of `V`, the sums of the block exist, and operands have all of its columns.
#[inline(always)]
unsafe fn any_rows<V: SimdVector, const N: usize>(block: &Block<'_>) {
    for (row, links) in block.links.chunks_exact(block.per_row).enumerate() {
        let sums = block.sums.wrapping_add(row * block.stride);
        // SAFETY: as the caller promises.
        unsafe { any_links::<V, N>(links, block.column, sums, sums, block.width) }
    }
}

/// Computes the `len` lanes at `to` from those at `from`, `N` vectors at a time. The operands of the first lane are at
/// position `first`. The last vectors of a segment are computed at once too: each turn chooses the loop of each operation
/// anew.
///
/// # Safety
/// The processor has the instructions of `V`. The lanes exist, at `from` and `to` the same or apart, and operands have all
/// of them.
#[inline(always)]
unsafe fn any_links<V: SimdVector, const N: usize>(
    links: &[SegmentLink<'_>],
    first: usize,
    from: *const f32,
    to: *mut f32,
    len: usize,
) {
    let mut at = 0;
    // SAFETY: as the caller promises; each call gets no more lanes than there are.
    unsafe {
        while at + N * V::LEN <= len {
            run_at::<V, N>(links, first + at, from.add(at), to.add(at), V::LEN);
            at += N * V::LEN;
        }
        let left = len - at;
        let (first, from, to) = (first + at, from.add(at), to.add(at));
        let last = |vectors: usize| left - (vectors - 1) * V::LEN;
        match left.div_ceil(V::LEN) {
            0 => {}
            1 => run_at::<V, 1>(links, first, from, to, left),
            2 => run_at::<V, 2>(links, first, from, to, last(2)),
            3 => run_at::<V, 3>(links, first, from, to, last(3)),
            4 => run_at::<V, 4>(links, first, from, to, last(4)),
            5 => run_at::<V, 5>(links, first, from, to, last(5)),
            6 => run_at::<V, 6>(links, first, from, to, last(6)),
            7 => run_at::<V, 7>(links, first, from, to, last(7)),
            _ => run_at::<V, 8>(links, first, from, to, last(8)),
        }
    }
}

/// Replaces `values` by the results of a link. `z` is its second operand for the vector of an index. Two more arguments are
/// the minimum and the maximum for an operand that is no NaN.
macro_rules! link {
    ($op:expr, $values:ident, |$i:ident| $z:expr) => {
        link!($op, $values, |$i| $z, |t| t.lesser($z).or_nan_of($z), |t| t
            .greater($z)
            .or_nan_of($z))
    };
    ($op:expr, $values:ident, |$i:ident| $z:expr, |$t:ident| $min:expr, |$u:ident| $max:expr) => {
        match $op {
            Link::Add => link!($values, |$i, t| t.add($z)),
            Link::Mul => link!($values, |$i, t| t.mul($z)),
            Link::Sub => link!($values, |$i, t| t.sub($z)),
            Link::SubFrom => link!($values, |$i, t| $z.sub(t)),
            Link::Min => link!($values, |$i, $t| $min),
            Link::MinOf => link!($values, |$i, t| $z.lesser(t).or_nan_of(t)),
            Link::Max => link!($values, |$i, $u| $max),
            Link::MaxOf => link!($values, |$i, t| $z.greater(t).or_nan_of(t)),
        }
    };
    ($values:ident, |$i:ident, $t:ident| $result:expr) => {
        for $i in 0..N {
            let $t = $values[$i];
            $values[$i] = $result;
        }
    };
}

/// Computes `N` vectors of lanes. Their operands begin at position `at`, and the last vector has `count` lanes.
///
/// # Safety
/// As for [`any_links`].
#[inline(always)]
unsafe fn run_at<V: SimdVector, const N: usize>(
    links: &[SegmentLink<'_>],
    at: usize,
    from: *const f32,
    to: *mut f32,
    count: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut values = [V::splat(0.0); N];
        for i in 0..N {
            values[i] = some::<V, N>(from, i, count);
        }
        for &SegmentLink { op, operand } in links {
            match operand {
                SegmentOperand::Splat(number) if number.is_nan() => values = [V::splat(number); N],
                SegmentOperand::Splat(number) => {
                    let z = V::splat(number);
                    link!(op, values, |i| z, |t| t.lesser(z), |t| t.greater(z));
                }
                SegmentOperand::Lanes(operand) => {
                    let own = |i| some::<V, N>(operand.as_ptr().add(at), i, count);
                    link!(op, values, |i| own(i));
                }
                SegmentOperand::Result => link!(op, values, |i| values[i]),
            }
        }
        for i in 0..N {
            let to = to.add(i * V::LEN);
            if i + 1 < N {
                values[i].store(to);
            } else {
                values[i].store_first(to, count);
            }
        }
    }
}

/// Reads vector `i` of `N`. The last has `count` elements.
///
/// # Safety
/// The elements exist, and the processor has the instructions of `V`.
#[inline(always)]
unsafe fn some<V: SimdVector, const N: usize>(from: *const f32, i: usize, count: usize) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let from = from.add(i * V::LEN);
        if i + 1 < N { V::load(from) } else { V::load_first(from, count) }
    }
}

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
                        unsafe { run_links_by(by, &[SegmentLink { op, operand }], from, to, len) };
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
