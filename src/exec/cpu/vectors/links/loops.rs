//! The loops over lanes, for vectors of any kind.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use super::link::{LaneLink, LaneOperand, Link};
use crate::exec::cpu::vectors::SimdVector;

/// Computes the `len` lanes at `to` from those at `from`, `N` vectors at a time. `N` is at least 4 and at most 8. The operands
/// of the first lane are at position `first`. The last vectors are computed at once too: each turn chooses the loop of each
/// operation anew.
///
/// # Safety
/// The processor has the instructions of `V`. The lanes at `from` and `to` exist, and are the same or lie apart. Operands
/// have at least `first + len` lanes, none of which lies at `to`.
#[inline(always)]
pub(super) unsafe fn any_links<V: SimdVector, const N: usize>(
    links: &[LaneLink<'_>],
    first: usize,
    from: *const f32,
    to: *mut f32,
    len: usize,
) {
    let mut at = 0;
    // SAFETY: as the caller promises; each call gets no more lanes than there are.
    unsafe {
        while at + N * V::LEN <= len {
            apply_to_vectors::<V, N>(links, first + at, from.add(at), to.add(at), V::LEN);
            at += N * V::LEN;
        }
        let left = len - at;
        let (first, from, to) = (first + at, from.add(at), to.add(at));
        let last = |vectors: usize| left - (vectors - 1) * V::LEN;
        match left.div_ceil(V::LEN) {
            0 => {}
            1 => apply_to_vectors::<V, 1>(links, first, from, to, left),
            2 => apply_to_vectors::<V, 2>(links, first, from, to, last(2)),
            3 => apply_to_vectors::<V, 3>(links, first, from, to, last(3)),
            // No code is made for more vectors than `N`.
            4 if const { 4 < N } => apply_to_vectors::<V, 4>(links, first, from, to, last(4)),
            5 if const { 5 < N } => apply_to_vectors::<V, 5>(links, first, from, to, last(5)),
            6 if const { 6 < N } => apply_to_vectors::<V, 6>(links, first, from, to, last(6)),
            7 if const { 7 < N } => apply_to_vectors::<V, 7>(links, first, from, to, last(7)),
            _ => apply_to_vectors::<V, N>(links, first, from, to, last(N)),
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
            Link::Add => link!(@map $values, |$i, t| t.add($z)),
            Link::Mul => link!(@map $values, |$i, t| t.mul($z)),
            Link::Sub => link!(@map $values, |$i, t| t.sub($z)),
            Link::SubFrom => link!(@map $values, |$i, t| $z.sub(t)),
            Link::Min => link!(@map $values, |$i, $t| $min),
            Link::MinOf => link!(@map $values, |$i, t| $z.lesser(t).or_nan_of(t)),
            Link::Max => link!(@map $values, |$i, $u| $max),
            Link::MaxOf => link!(@map $values, |$i, t| $z.greater(t).or_nan_of(t)),
        }
    };
    (@map $values:ident, |$i:ident, $t:ident| $result:expr) => {
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
unsafe fn apply_to_vectors<V: SimdVector, const N: usize>(
    links: &[LaneLink<'_>],
    at: usize,
    from: *const f32,
    to: *mut f32,
    count: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut values = [V::splat(0.0); N];
        for i in 0..N {
            values[i] = load_vector::<V, N>(from, i, count);
        }
        for &link in links {
            match link {
                LaneLink::AffineClamp(link) => link.apply(&mut values),
                LaneLink::One(_, LaneOperand::Splat(number)) if number.is_nan() => {
                    values = [V::splat(number); N];
                }
                LaneLink::One(op, LaneOperand::Splat(number)) => {
                    let z = V::splat(number);
                    link!(op, values, |i| z, |t| t.lesser(z), |t| t.greater(z));
                }
                LaneLink::One(op, LaneOperand::Lanes(operand)) => {
                    let own = |i| load_vector::<V, N>(operand.as_ptr().add(at), i, count);
                    link!(op, values, |i| own(i));
                }
                LaneLink::One(op, LaneOperand::Result) => link!(op, values, |i| values[i]),
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
unsafe fn load_vector<V: SimdVector, const N: usize>(
    from: *const f32,
    i: usize,
    count: usize,
) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let from = from.add(i * V::LEN);
        if i + 1 < N { V::load(from) } else { V::load_first(from, count) }
    }
}
