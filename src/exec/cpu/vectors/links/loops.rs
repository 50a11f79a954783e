//! The loops over the lanes of a segment, for vectors of any kind.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use super::{Block, Link, SegmentLink, SegmentOperand};
use crate::exec::cpu::vectors::SimdVector;

/// Replaces the sums of all rows of `block` by the results of their links.
///
/// # Safety
/// The processor has the instructions of `V`, the sums of the block exist, and operands have all of its columns.
#[inline(always)]
pub(super) unsafe fn any_rows<V: SimdVector, const N: usize>(block: &Block<'_>) {
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
pub(super) unsafe fn any_links<V: SimdVector, const N: usize>(
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
        for &link in links {
            match link {
                SegmentLink::Numbers(numbers) => numbers.apply(&mut values),
                SegmentLink::One(_, SegmentOperand::Splat(number)) if number.is_nan() => {
                    values = [V::splat(number); N];
                }
                SegmentLink::One(op, SegmentOperand::Splat(number)) => {
                    let z = V::splat(number);
                    link!(op, values, |i| z, |t| t.lesser(z), |t| t.greater(z));
                }
                SegmentLink::One(op, SegmentOperand::Lanes(operand)) => {
                    let own = |i| some::<V, N>(operand.as_ptr().add(at), i, count);
                    link!(op, values, |i| own(i));
                }
                SegmentLink::One(op, SegmentOperand::Result) => link!(op, values, |i| values[i]),
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
