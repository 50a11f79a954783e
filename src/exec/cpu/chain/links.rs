//! The loops of chains: all operations over lanes in registers.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::exec::cpu::tape::pair::Link;
use crate::exec::cpu::vectors::SimdVector;

/// An operation over the lanes of a segment.
#[derive(Clone, Copy)]
pub(super) struct SegmentLink<'s> {
    pub op: Link,
    pub operand: SegmentOperand<'s>,
}

#[derive(Clone, Copy)]
pub(super) enum SegmentOperand<'s> {
    Splat(f32),
    Lanes(&'s [f32]),
}

/// The operations over the lanes of one segment, in order.
pub(super) type SegmentLinks<'s> = SmallVec<[SegmentLink<'s>; 8]>;

/// The operations over some rows of sums, each with operands of its own.
pub(in crate::exec::cpu) struct RowLinks<'s> {
    /// The links of all rows, as many for each.
    links: Vec<SegmentLink<'s>>,
    per_row: usize,
    columns: usize,
}

impl<'s> RowLinks<'s> {
    /// The `links` of all rows of so many `columns`, `per_row` for each.
    pub(super) fn new(links: Vec<SegmentLink<'s>>, per_row: usize, columns: usize) -> Self {
        let lanes = |link: &SegmentLink<'_>| match link.operand {
            SegmentOperand::Splat(_) => true,
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

/// The loop for the instructions of one kind of processor, over as many lanes as the operands have.
type RunLinks = unsafe fn(&[SegmentLink<'_>], &mut [f32]);

pub(super) fn run_links(links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    static NATIVE: LazyLock<RunLinks> = LazyLock::new(|| all()[0].0);
    run_links_by(*NATIVE, links, lanes);
}

fn run_links_by(by: RunLinks, links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    for link in links {
        if let SegmentOperand::Lanes(operand) = link.operand {
            assert!(operand.len() >= lanes.len(), "an operand has all lanes");
        }
    }
    // SAFETY: the processor has the instructions of `by` (`all`), and the operands have all lanes.
    unsafe { by(links, lanes) }
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
            use crate::exec::cpu::chain::links::{
                Block, SegmentLink, any_links, any_rows,
            };

            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn links(links: &[SegmentLink<'_>], lanes: &mut [f32]) {
                let (len, lanes) = (lanes.len(), lanes.as_mut_ptr());
                // SAFETY: as the caller promises.
                unsafe { any_links::<$vector, $many>(links, 0, lanes, len) }
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
        unsafe { any_links::<V, N>(links, block.column, sums, block.width) }
    }
}

/// Replaces `len` lanes, for which operands begin at position `from`, by the results of the links, `N` vectors at a time.
/// The last vectors of a segment are computed at once too: each turn chooses the loop of each operation anew.
///
/// # Safety
/// The processor has the instructions of `V`, the lanes exist, and operands have all of them.
#[inline(always)]
unsafe fn any_links<V: SimdVector, const N: usize>(
    links: &[SegmentLink<'_>],
    from: usize,
    lanes: *mut f32,
    len: usize,
) {
    let mut at = 0;
    // SAFETY: as the caller promises; each call gets no more lanes than there are.
    unsafe {
        while at + N * V::LEN <= len {
            run_at::<V, N>(links, from + at, lanes.add(at), V::LEN);
            at += N * V::LEN;
        }
        let left = len - at;
        let (from, lanes) = (from + at, lanes.add(at));
        let last = |vectors: usize| left - (vectors - 1) * V::LEN;
        match left.div_ceil(V::LEN) {
            0 => {}
            1 => run_at::<V, 1>(links, from, lanes, left),
            2 => run_at::<V, 2>(links, from, lanes, last(2)),
            3 => run_at::<V, 3>(links, from, lanes, last(3)),
            4 => run_at::<V, 4>(links, from, lanes, last(4)),
            5 => run_at::<V, 5>(links, from, lanes, last(5)),
            6 => run_at::<V, 6>(links, from, lanes, last(6)),
            7 => run_at::<V, 7>(links, from, lanes, last(7)),
            _ => run_at::<V, 8>(links, from, lanes, last(8)),
        }
    }
}

/// Computes `N` vectors of lanes, which begin at position `at` of the segment. The last has `count` lanes.
///
/// # Safety
/// As for [`any_links`].
#[inline(always)]
unsafe fn run_at<V: SimdVector, const N: usize>(
    links: &[SegmentLink<'_>],
    at: usize,
    lanes: *mut f32,
    count: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut values = [V::splat(0.0); N];
        for i in 0..N {
            values[i] = some::<V, N>(lanes, i, count);
        }
        for &SegmentLink { op, operand } in links {
            let mut own = [V::splat(0.0); N];
            let mut may_be_nan = true;
            match operand {
                SegmentOperand::Splat(number) => {
                    own = [V::splat(number); N];
                    may_be_nan = number.is_nan();
                }
                SegmentOperand::Lanes(operand) => {
                    for i in 0..N {
                        own[i] = some::<V, N>(operand.as_ptr().add(at), i, count);
                    }
                }
            }
            for i in 0..N {
                let (t, z) = (values[i], own[i]);
                values[i] = match op {
                    Link::Add => t.add(z),
                    Link::Mul => t.mul(z),
                    Link::Sub => t.sub(z),
                    Link::SubFrom => z.sub(t),
                    Link::Min if !may_be_nan => t.lesser(z),
                    Link::Min => t.lesser(z).or_nan_of(z),
                    Link::MinOf => z.lesser(t).or_nan_of(t),
                    Link::Max if !may_be_nan => t.greater(z),
                    Link::Max => t.greater(z).or_nan_of(z),
                    Link::MaxOf => z.greater(t).or_nan_of(t),
                };
            }
        }
        for i in 0..N {
            let to = lanes.add(i * V::LEN);
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
                for operand in operands.into_iter().chain([SegmentOperand::Lanes(&other)]) {
                    for (by, _) in all() {
                        let mut got = sums.clone();
                        run_links_by(by, &[SegmentLink { op, operand }], &mut got);
                        for (at, got) in got.into_iter().enumerate() {
                            let z = match operand {
                                SegmentOperand::Splat(number) => number,
                                SegmentOperand::Lanes(lanes) => lanes[at],
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
