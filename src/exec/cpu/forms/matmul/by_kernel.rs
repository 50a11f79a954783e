//! Blocks of products by the [`Kernel`] of the processor: the right operand is read where it lies, or copied to panels.

use std::ops::Range;

use super::floats::{FEW, Floats};
use super::kernel::{DotProducts, Kernel, PanelProduct, Panels, Rows, StripProduct};
use super::operand::Matrices;
use super::vector;

/// Most elements of a right operand that is read where it lies for more rows, and most rows that read it so. It stays in
/// the second-level cache, or in the first if its rows would share few places there.
const MEDIUM: usize = 256 << 10;
const SMALL: usize = 16 << 10;
const SOME: usize = 128;
/// Elements between rows that share few places of the first-level cache, or a multiple.
const SHARED: usize = 128;
/// Most elements of a panel, which stays in the first-level cache, and most elements of the panels that a thread copies at
/// a time.
const PANEL: usize = 12 << 10;
const PACKED: usize = 48 << 10;
/// Rows of the left operand that stay in the second-level cache beside those panels.
const HIGH: usize = 96;
/// Most rows of the right operand that are copied or read by strips at a time.
pub(super) const STRIP: usize = 256;
/// Most elements of a dot product at a time: some columns of as many stay in the first-level cache.
const LONG: usize = 1024;

/// A block: some rows and columns of one of the products.
#[derive(Debug)]
pub(super) struct ProductBlock {
    pub index: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

/// The place of the sums of a block, in rows that are `stride` elements apart.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub start: *mut f32,
    pub stride: usize,
}

/// A thread's copies of parts of operands.
#[derive(Default)]
pub(super) struct Copies {
    pub x: Vec<f32>,
    pub w: Vec<f32>,
    row_major: Vec<f32>,
}

/// Computes the sums of `block`.
///
/// # Safety
/// All sums of the block can be written at `sums` by this call alone.
pub(super) unsafe fn multiply(
    kernel: &Kernel,
    floats: &Floats<'_>,
    block: &ProductBlock,
    sums: Sums,
    copies: &mut Copies,
) {
    let [.., k] = floats.size;
    let ([row, column], copied) = (floats.w.strides(), floats.w.is_only_copied());
    // SAFETY: as the caller promises.
    unsafe {
        match block.rows.len() {
            _ if floats.by_dots => by_dots(kernel, floats, block, sums, copies),
            _ if floats.panels.is_some() => by_kept_panels(kernel, floats, block, sums, copies),
            1 if !floats.by_panels && (copied || column == 1) => {
                by_row(floats, block, sums, copies);
            }
            ..=SOME if !copied && column == 1 && fits_in_place(row, k * block.columns.len()) => {
                in_place(kernel, floats, block, sums, copies);
            }
            ..=FEW if !copied && !floats.by_panels => {
                by_strips(kernel, floats, block, sums, copies);
            }
            _ => by_panels(kernel, floats, block, sums, copies),
        }
    }
}

/// Returns whether so many elements, whose rows lie `row` elements apart, are read where they lie.
fn fits_in_place(row: isize, elements: usize) -> bool {
    let most = if row.unsigned_abs().is_multiple_of(SHARED) { SMALL } else { MEDIUM };
    elements <= most
}

/// The parts of `0..k` whose rows of a panel stay in the first-level cache.
fn deep_steps(kernel: &Kernel, k: usize) -> impl Iterator<Item = Range<usize>> {
    steps(k, k.div_ceil(k.div_ceil(PANEL / kernel.columns)))
}

/// Multiplies panels that an earlier run packed. The block begins with a panel.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_kept_panels(
    kernel: &Kernel,
    Floats { size: [.., k], x, panels, .. }: &Floats<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    Sums { start, stride }: Sums,
    copies: &mut Copies,
) {
    let pitch = kernel.columns * k;
    assert_eq!(columns.start % kernel.columns, 0, "blocks are whole panels");
    let data = &panels.unwrap_or_default()[columns.start / kernel.columns * pitch..];
    for depth in deep_steps(kernel, *k) {
        let x = rows_of(x, *index, [rows, &depth], &mut copies.x);
        let data = &data[depth.start * kernel.columns..];
        for row in (0..rows.len()).step_by(HIGH) {
            let size = [HIGH.min(rows.len() - row), columns.len(), depth.len()];
            let x = Rows { data: &x.data[row * x.stride..], ..x };
            let product = PanelProduct { size, x, w: Panels::Packed { data, pitch } };
            let start = start.wrapping_add(row * stride);
            // SAFETY: as the caller promises. The first step writes all sums.
            unsafe { kernel.panels(&product, start, stride, depth.start > 0) };
        }
    }
}

/// Adds up products of a row with the rows of the right operand, which are contiguous or copied.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_row(
    Floats { size: [.., k], x, w, .. }: &Floats<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    sums: Sums,
    copies: &mut Copies,
) {
    // SAFETY: the one row has as many elements as the block has columns, which this call alone writes. All of them exist
    // and hold numbers of a kind already.
    let out = unsafe { std::slice::from_raw_parts_mut(sums.start, columns.len()) };
    out.fill(0.0);
    for depth in steps(*k, STRIP) {
        let x = rows_of(x, *index, [rows, &depth], &mut copies.x);
        let w = rows_of(w, *index, [&depth, columns], &mut copies.w);
        vector::add_product(&x.data[..depth.len()], w.data, w.stride, out);
    }
}

/// Multiplies rows with panels of the right operand where it lies.
///
/// # Safety
/// As for [`multiply`].
unsafe fn in_place(
    kernel: &Kernel,
    Floats { size: [.., k], x, w, .. }: &Floats<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    Sums { start, stride }: Sums,
    copies: &mut Copies,
) {
    for depth in deep_steps(kernel, *k) {
        let x = rows_of(x, *index, [rows, &depth], &mut copies.x);
        let w = Panels::InPlace(rows_of(w, *index, [&depth, columns], &mut copies.w));
        let size = [rows.len(), columns.len(), depth.len()];
        // SAFETY: as the caller promises. The first step writes all sums.
        unsafe { kernel.panels(&PanelProduct { size, x, w }, start, stride, depth.start > 0) };
    }
}

/// Computes dot products of rows and columns where they lie.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_dots(
    kernel: &Kernel,
    Floats { size: [.., k], x, w, .. }: &Floats<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    Sums { start, stride }: Sums,
    copies: &mut Copies,
) {
    let pitch = w.strides()[1] as usize;
    for depth in steps(*k, LONG) {
        let x = rows_of(x, *index, [rows, &depth], &mut copies.x);
        let first = w.start(*index) as usize + depth.start + columns.start * pitch;
        let w = Rows { data: &w.floats()[first..], stride: pitch };
        let size = [rows.len(), columns.len(), depth.len()];
        // SAFETY: as the caller promises. The first step writes all sums.
        unsafe { kernel.dots(&DotProducts { size, x, w }, start, stride, depth.start > 0) };
    }
}

/// Adds up products of a few rows with the rows of the right operand.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_strips(
    kernel: &Kernel,
    Floats { size: [.., k], x, w, .. }: &Floats<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    Sums { start, stride }: Sums,
    copies: &mut Copies,
) {
    for row in 0..rows.len() {
        // SAFETY: as the caller promises.
        unsafe { start.add(row * stride).write_bytes(0, columns.len()) };
    }
    for depth in steps(*k, STRIP) {
        let x = rows_of(x, *index, [rows, &depth], &mut copies.x);
        let w = rows_of(w, *index, [&depth, columns], &mut copies.w);
        let size = [rows.len(), columns.len(), depth.len()];
        // SAFETY: as the caller promises. All sums hold numbers.
        unsafe { kernel.strips(&StripProduct { size, x, w }, start, stride) };
    }
}

/// Copies the right operand to panels, some at a time, and multiplies those.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_panels(
    kernel: &Kernel,
    Floats { size: [.., k], x, w, .. }: &Floats<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    Sums { start, stride }: Sums,
    Copies { x: x_copy, w: panels, row_major }: &mut Copies,
) {
    let deep = k.div_ceil(k.div_ceil(PANEL / kernel.columns));
    let wide = (PACKED / deep).next_multiple_of(kernel.columns);
    for left in columns.clone().step_by(wide) {
        let some = left..columns.end.min(left + wide);
        for depth in steps(*k, deep) {
            w.pack(*index, [&depth, &some], kernel.columns, (panels, row_major));
            let x = rows_of(x, *index, [rows, &depth], x_copy);
            for row in (0..rows.len()).step_by(HIGH) {
                let size = [HIGH.min(rows.len() - row), some.len(), depth.len()];
                let x = Rows { data: &x.data[row * x.stride..], ..x };
                let start = start.wrapping_add(row * stride + left - columns.start);
                let product = PanelProduct {
                    size,
                    x,
                    w: Panels::Packed { data: panels, pitch: kernel.columns * depth.len() },
                };
                // SAFETY: as the caller promises. The first step writes all sums.
                unsafe { kernel.panels(&product, start, stride, depth.start > 0) };
            }
        }
    }
}

/// The rows at `rows` and `columns` of matrix `index` where they lie, or as a copy.
pub(crate) fn rows_of<'a>(
    from: &'a Matrices<'_>,
    index: usize,
    [rows, columns]: [&Range<usize>; 2],
    copy: &'a mut Vec<f32>,
) -> Rows<'a> {
    let [row, column] = from.strides();
    if column == 1 && row >= 0 && !from.is_only_copied() {
        let stride = row as usize;
        let first = from.start(index) as usize + rows.start * stride + columns.start;
        return Rows { data: &from.floats()[first..], stride };
    }
    from.copy(index, [rows.clone(), columns.clone()], copy);
    Rows { data: copy, stride: columns.len() }
}

/// The parts of `0..k` of at most `most`.
pub(crate) fn steps(k: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..k).step_by(most.max(1)).map(move |from| from..k.min(from + most))
}
