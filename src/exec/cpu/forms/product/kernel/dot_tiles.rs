//! Dot products of rows and contiguous columns, in tiles whose sums stay in registers. The functions are inlined in those of
//! each set of instructions.

use super::operands::{DotProducts, Rows};
use crate::exec::cpu::vectors::{SUMS, SimdVector, each};

/// The position of a tile's sums.
#[derive(Clone, Copy)]
struct DotTarget {
    to: *mut f32,
    stride: usize,
    /// True if the sums are added to those that lie there.
    more: bool,
    /// Columns that exist.
    count: usize,
}

/// As the kernel's `dots`.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn dots<V: SimdVector>(
    &DotProducts { size: [rows, columns, depth], x, w }: &DotProducts<'_>,
    out: *mut f32,
    stride: usize,
    more: bool,
) {
    let size = [rows, columns, depth];
    // SAFETY: as the caller promises.
    unsafe {
        match rows {
            1 if const { V::LEN == SUMS } => dot_bands::<V, 16>(size, (x, w), (out, stride), more),
            1 => dot_bands::<V, 8>(size, (x, w), (out, stride), more),
            2 if const { V::LEN == SUMS } => dot_bands::<V, 8>(size, (x, w), (out, stride), more),
            _ => dot_bands::<V, 4>(size, (x, w), (out, stride), more),
        }
    }
}

/// As [`dots`], in bands of `N` columns, which stay in the first-level cache.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn dot_bands<V: SimdVector, const N: usize>(
    [rows, columns, depth]: [usize; 3],
    (x, w): (Rows<'_>, Rows<'_>),
    (out, stride): (*mut f32, usize),
    more: bool,
) {
    // Sixteen sums fill 32 registers beside the elements that they take in, and twelve sums fill 16.
    let high = if V::LEN == SUMS { 4 } else { 3 };
    let tiles = rows.div_ceil(high);
    for column in (0..columns).step_by(N) {
        let w = (w.row(column), w.stride);
        let count = N.min(columns - column);
        let mut row = 0;
        for at in 0..tiles {
            let height = (rows - row).div_ceil(tiles - at);
            let x = (x.row(row), x.stride);
            let to = out.wrapping_add(row * stride + column);
            let target = DotTarget { to, stride, more, count };
            // SAFETY: all rows and columns exist, as the caller of `dots` promises.
            unsafe {
                match height {
                    1 => dot_tile::<V, 1, N>(depth, x, w, target),
                    2 if const { 2 * N <= SUMS } => dot_tile::<V, 2, N>(depth, x, w, target),
                    3 if const { 3 * N <= SUMS } => dot_tile::<V, 3, N>(depth, x, w, target),
                    4 if const { V::LEN == SUMS && 4 * N <= SUMS } => {
                        dot_tile::<V, 4, N>(depth, x, w, target);
                    }
                    _ => unreachable!("a band is as wide as its rows allow"),
                }
            }
            row += height;
        }
    }
}

/// Computes the products of `M` rows and the first `count` of `N` columns.
///
/// # Safety
/// All elements of those that are read or written exist.
#[inline(always)]
unsafe fn dot_tile<V: SimdVector, const M: usize, const N: usize>(
    depth: usize,
    (x, x_stride): (*const f32, usize),
    (w, w_stride): (*const f32, usize),
    DotTarget { to, stride, more, count }: DotTarget,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut columns = [w; N];
        each!(c < N => {
            // The last column stands for those beyond it.
            columns[c] = w.add(c.min(count - 1) * w_stride);
        });
        let mut sums = [[V::splat(0.0); N]; M];
        let whole = depth - depth % V::LEN;
        for k in (0..whole).step_by(V::LEN) {
            // Rows stay in registers beside the sums; each element of a column is used at once.
            let mut elements = [V::splat(0.0); M];
            each!(r < M => {
                elements[r] = V::load(x.add(r * x_stride + k));
            });
            each!(c < N => {
                let column = V::load(columns[c].add(k));
                each!(r < M => {
                    sums[r][c] = sums[r][c].add_product(elements[r], column);
                });
            });
        }
        if whole < depth {
            let rest = depth - whole;
            let mut elements = [V::splat(0.0); M];
            each!(r < M => {
                elements[r] = V::load_first(x.add(r * x_stride + whole), rest);
            });
            each!(c < N => {
                let column = V::load_first(columns[c].add(whole), rest);
                each!(r < M => {
                    sums[r][c] = sums[r][c].add_product(elements[r], column);
                });
            });
        }
        let mut all = [V::splat(0.0); SUMS];
        each!(r < M => {
            each!(c < N => {
                all[r * N + c] = sums[r][c];
            });
        });
        let all = V::sums(all);
        for r in 0..M {
            let to = to.add(r * stride);
            if count == N && !more {
                to.cast::<[f32; N]>().write(*all[r * N..].as_ptr().cast());
                continue;
            }
            for c in 0..N {
                if c < count {
                    let before = if more { *to.add(c) } else { 0.0 };
                    *to.add(c) = before + all[r * N + c];
                }
            }
        }
    }
}
