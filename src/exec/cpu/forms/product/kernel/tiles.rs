//! Tiles of results, whose sums stay in registers. The functions are inlined in those of each set of instructions.

use super::operands::{
    ByColumns, ByRows, LeftRows, PanelProduct, PanelRows, Panels, Scattered, Stepped, StripProduct,
    TransposedLeftProduct,
};
use crate::exec::cpu::vectors::{SimdVector, each};

/// Elements of a row for which those below, which the next tile reads, are fetched at a time: a line of the caches.
const LINE: usize = 16;
/// Most rows of a tile that reads panels as fast as they come. A hint for each vector then costs more than it brings: a row
/// times 4 MB of panels took 55 µs with hints, and 43 without (EPYC, Zen 4).
const FEW_ROWS: usize = 3;

/// As the kernel's `panels`, for panels of `P` vectors, in tiles of at most `HIGH` rows.
/// `P` is at most 3, and `HIGH` at most 8.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn panels<V: SimdVector, const P: usize, const HIGH: usize>(
    &PanelProduct { size, x, w }: &PanelProduct<'_>,
    out: *mut f32,
    stride: usize,
    more: bool,
) {
    let x = ByRows { start: x.row(0), stride: x.stride };
    // SAFETY: as the caller promises.
    unsafe { all_tiles::<V, P, HIGH, _>(size, (x, w), (out, stride), more) }
}

/// As the kernel's `transposed_left`.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn transposed_left<V: SimdVector, const P: usize, const HIGH: usize>(
    &TransposedLeftProduct { size, x, w }: &TransposedLeftProduct<'_>,
    out: *mut f32,
    stride: usize,
    more: bool,
) {
    let x = ByColumns { start: x.row(0), stride: x.stride };
    // SAFETY: as the caller promises.
    unsafe { all_tiles::<V, P, HIGH, _>(size, (x, Panels::InPlace(w)), (out, stride), more) }
}

/// Computes all tiles of a product.
///
/// # Safety
/// As for [`panels`].
#[inline(always)]
unsafe fn all_tiles<V: SimdVector, const P: usize, const HIGH: usize, X: LeftRows>(
    [rows, columns, depth]: [usize; 3],
    (x, w): (X, Panels<'_>),
    (out, stride): (*mut f32, usize),
    more: bool,
) {
    // Tiles of about equal heights, and of about equal widths where the right operand does not lie in panels.
    let tiles = rows.div_ceil(HIGH);
    let panels = columns.div_ceil(V::LEN).div_ceil(P);
    let mut column = 0;
    for panel in 0..panels {
        let most = match w {
            Panels::Packed { .. } => P,
            _ => (columns - column).div_ceil(V::LEN).div_ceil(panels - panel),
        };
        let width = (most * V::LEN).min(columns - column);
        let vectors = width.div_ceil(V::LEN);
        let last = width - (vectors - 1) * V::LEN;
        let mut row = 0;
        for at in 0..tiles {
            let height = (rows - row).div_ceil(tiles - at);
            let x = x.below(row);
            let target = Target { to: out.wrapping_add(row * stride + column), stride, more, last };
            let size = [height, vectors, depth];
            // SAFETY: all elements of the tile exist, as the caller of `panels` promises.
            unsafe {
                match w {
                    Panels::Packed { data, pitch } if const { X::TAKES_ANY } => {
                        let start = data.as_ptr().wrapping_add(panel * pitch);
                        let rows = Stepped::<true> { start, step: P * V::LEN };
                        any_tile::<V, P, HIGH, true, _, _>(size, x, rows, target);
                    }
                    Panels::InPlace(w) => {
                        let start = w.row(0).wrapping_add(column);
                        let rows = Stepped::<false> { start, step: w.stride };
                        if last == V::LEN {
                            any_tile::<V, P, HIGH, true, _, _>(size, x, rows, target);
                        } else {
                            any_tile::<V, P, HIGH, false, _, _>(size, x, rows, target);
                        }
                    }
                    Panels::Scattered(data, offsets) if const { X::TAKES_ANY } => {
                        let start = data.as_ptr().wrapping_add(column);
                        let rows = Scattered { start, offsets: offsets.as_ptr() };
                        any_tile::<V, P, HIGH, true, _, _>(size, x, rows, target);
                    }
                    _ => unreachable!("the right operand lies by rows"),
                }
            }
            row += height;
        }
        column += width;
    }
}

/// The position of a tile's sums.
#[derive(Clone, Copy)]
struct Target {
    to: *mut f32,
    stride: usize,
    /// True if the sums are added to those that lie there.
    more: bool,
    /// Elements of the last vector of a row.
    last: usize,
}

/// Computes a tile of at most `HIGH` rows and `P` vectors.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn any_tile<
    V: SimdVector,
    const P: usize,
    const HIGH: usize,
    const WHOLE: bool,
    X: LeftRows,
    W: PanelRows,
>(
    [height, vectors, depth]: [usize; 3],
    x: X,
    w: W,
    target: Target,
) {
    // SAFETY: as the caller promises.
    unsafe {
        match vectors {
            1 => tile_of::<V, 1, HIGH, WHOLE, X, W>(height, depth, x, w, target),
            2 if const { 2 < P } => tile_of::<V, 2, HIGH, WHOLE, X, W>(height, depth, x, w, target),
            _ => tile_of::<V, P, HIGH, WHOLE, X, W>(height, depth, x, w, target),
        }
    }
}

/// As [`any_tile`], of `P` vectors.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn tile_of<
    V: SimdVector,
    const P: usize,
    const HIGH: usize,
    const WHOLE: bool,
    X: LeftRows,
    W: PanelRows,
>(
    height: usize,
    depth: usize,
    x: X,
    w: W,
    target: Target,
) {
    // SAFETY: as the caller promises.
    unsafe {
        // No code is made for heights beyond `HIGH`.
        match height {
            1 => tile::<V, 1, P, WHOLE, X, W>(depth, x, w, target),
            2 if const { 2 < HIGH } => tile::<V, 2, P, WHOLE, X, W>(depth, x, w, target),
            3 if const { 3 < HIGH } => tile::<V, 3, P, WHOLE, X, W>(depth, x, w, target),
            4 if const { 4 < HIGH } => tile::<V, 4, P, WHOLE, X, W>(depth, x, w, target),
            5 if const { 5 < HIGH } => tile::<V, 5, P, WHOLE, X, W>(depth, x, w, target),
            6 if const { 6 < HIGH } => tile::<V, 6, P, WHOLE, X, W>(depth, x, w, target),
            7 if const { 7 < HIGH } => tile::<V, 7, P, WHOLE, X, W>(depth, x, w, target),
            _ => tile::<V, HIGH, P, WHOLE, X, W>(depth, x, w, target),
        }
    }
}

/// Computes a tile of `M` rows and `P` vectors, from rows of the left operand and those of a panel. Where the panel is not
/// `WHOLE`, the last vector of its rows has elements for the sums alone.
///
/// # Safety
/// All elements that are read or written exist.
#[inline(always)]
unsafe fn tile<
    V: SimdVector,
    const M: usize,
    const P: usize,
    const WHOLE: bool,
    X: LeftRows,
    W: PanelRows,
>(
    depth: usize,
    mut x: X,
    mut w: W,
    Target { to, stride, more, last }: Target,
) {
    // SAFETY: as the caller promises.
    unsafe {
        for r in 0..M {
            V::fetch(to.wrapping_add(r * stride));
        }
        let mut sums = [[V::splat(0.0); P]; M];
        let mut k = 0;
        // One product of each sum a turn: of several turns, the compiler reads all operands first, more than there are
        // registers.
        while k < depth {
            if k.is_multiple_of(LINE) {
                each!(r < M => {
                    V::fetch(x.element(M + r, 0));
                });
            }
            sums = add_step::<V, M, P, WHOLE, X, W>(sums, x, w, last);
            (x, w) = (x.from(1), w.from(1));
            k += 1;
        }
        each!(r < M => {
            each!(p < P => {
                let to = to.add(r * stride + p * V::LEN);
                let count = if p + 1 < P { V::LEN } else { last };
                let sum = sums[r][p];
                let sum = if more { V::load_first(to, count).add(sum) } else { sum };
                sum.store_first(to, count);
            });
        });
    }
}

/// Adds a product to each sum of a tile.
///
/// # Safety
/// All elements that are read exist.
#[inline(always)]
unsafe fn add_step<
    V: SimdVector,
    const M: usize,
    const P: usize,
    const WHOLE: bool,
    X: LeftRows,
    W: PanelRows,
>(
    mut sums: [[V; P]; M],
    x: X,
    w: W,
    last: usize,
) -> [[V; P]; M] {
    // SAFETY: as the caller promises.
    unsafe {
        let row = w.row(0);
        let mut columns = [V::splat(0.0); P];
        each!(p < P => {
            let from = row.add(p * V::LEN);
            let whole = WHOLE || p + 1 < P;
            columns[p] = if whole { V::load(from) } else { V::load_first(from, last) };
            if let Some(ahead) = W::AHEAD.filter(|_| const { M > FEW_ROWS }) {
                V::fetch(from.wrapping_add(ahead));
            }
        });
        each!(r < M => {
            let x = V::splat(*x.element(r, 0));
            each!(p < P => {
                sums[r][p] = sums[r][p].add_product(x, columns[p]);
            });
        });
    }
    sums
}

/// As the kernel's `strips`.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn strips<V: SimdVector>(
    &StripProduct { size: [rows, columns, depth], x, w }: &StripProduct<'_>,
    out: *mut f32,
    stride: usize,
) {
    /// Elements of the results that stay in the first-level cache. They lie side by side there: rows whose distance is a
    /// multiple of a page share its sets, and stores to them hold up loads of the right operand.
    const RESULTS: usize = 2048;
    const DEEP: usize = 4;
    let wide = 2 * V::LEN;
    let strip = (RESULTS / rows.max(1) / 2).next_multiple_of(wide);
    assert!(rows * strip <= RESULTS);
    let mut near = [0.0_f32; RESULTS];
    for start in (0..columns).step_by(strip) {
        let end = columns.min(start + strip);
        for (row, near) in near.chunks_exact_mut(strip).take(rows).enumerate() {
            let from = out.wrapping_add(row * stride + start);
            // SAFETY: all elements of the results exist, as the caller of `strips` promises.
            unsafe { from.copy_to_nonoverlapping(near.as_mut_ptr(), end - start) };
        }
        let mut k = 0;
        while k < depth {
            let deep = if depth - k < DEEP { 1 } else { DEEP };
            let mut column = start;
            while column < end {
                let to = near.as_mut_ptr().wrapping_add(column - start);
                let target = Target { to, stride: strip, more: true, last: 1 };
                let operands = [
                    (x.row(0).wrapping_add(k), x.stride),
                    (w.row(k).wrapping_add(column), w.stride),
                ];
                let width = end - column;
                // SAFETY: all elements exist, as the caller of `strips` promises.
                column += unsafe {
                    match deep {
                        DEEP if width >= wide => strip_tile::<V, DEEP, 2>(rows, operands, target),
                        DEEP if width >= V::LEN => strip_tile::<V, DEEP, 1>(rows, operands, target),
                        DEEP => strip_rest::<DEEP>(rows, width, operands, target),
                        _ if width >= V::LEN => strip_tile::<V, 1, 1>(rows, operands, target),
                        _ => strip_rest::<1>(rows, width, operands, target),
                    }
                };
            }
            k += deep;
        }
        for (row, near) in near.chunks_exact(strip).take(rows).enumerate() {
            let to = out.wrapping_add(row * stride + start);
            // SAFETY: as above.
            unsafe { near.as_ptr().copy_to_nonoverlapping(to, end - start) };
        }
    }
}

/// Adds the products of `K` columns of the rows and `K` rows of `P` vectors. Returns the number of columns done.
///
/// # Safety
/// All elements that are read or written exist.
#[inline(always)]
unsafe fn strip_tile<V: SimdVector, const K: usize, const P: usize>(
    rows: usize,
    [(x, x_stride), (w, w_stride)]: [(*const f32, usize); 2],
    Target { to, stride, .. }: Target,
) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        let mut columns = [[V::splat(0.0); P]; K];
        each!(k < K => {
            each!(p < P => {
                columns[k][p] = V::load(w.add(k * w_stride + p * V::LEN));
            });
        });
        for r in 0..rows {
            let mut sums = [V::splat(0.0); P];
            each!(p < P => {
                sums[p] = V::load(to.add(r * stride + p * V::LEN));
            });
            each!(k < K => {
                let x = V::splat(*x.add(r * x_stride + k));
                each!(p < P => {
                    sums[p] = sums[p].add_product(x, columns[k][p]);
                });
            });
            each!(p < P => {
                sums[p].store(to.add(r * stride + p * V::LEN));
            });
        }
    }
    P * V::LEN
}

/// As [`strip_tile`], for `width` columns, one by one.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn strip_rest<const K: usize>(
    rows: usize,
    width: usize,
    [(x, x_stride), (w, w_stride)]: [(*const f32, usize); 2],
    Target { to, stride, .. }: Target,
) -> usize {
    for r in 0..rows {
        for c in 0..width {
            for k in 0..K {
                // SAFETY: as the caller promises.
                unsafe {
                    *to.add(r * stride + c) += *x.add(r * x_stride + k) * *w.add(k * w_stride + c);
                }
            }
        }
    }
    width
}
