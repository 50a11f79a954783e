//! Blocks of products by the [`Kernel`] of the processor: the right operand is read where it lies, or copied to panels.

use std::ops::Range;

use super::f32_operands::{F32Operands, FEW};
use super::gemv;
use super::kernel::{DotProducts, Kernel, PanelProduct, Panels, Rows, StripProduct};
use super::operand::Matrices;
use super::pack_buffers::PackBuffers;
use crate::exec::cpu::operands::ranges;
use crate::exec::cpu::vectors::links::RowLinks;

/// Most elements of a right operand that several rows read unpacked, where it lies: it fits the second-level cache.
const UNPACKED: usize = 256 << 10;
/// The same, if its row stride causes cache-set conflicts: it fits the first-level cache.
const UNPACKED_IN_CONFLICT: usize = 16 << 10;
/// Most rows that read an unpacked right operand.
const UNPACKED_ROWS: usize = 128;
/// Row strides that are multiples of so many elements map rows to few sets of the first-level cache.
const CONFLICT_STRIDE: usize = 128;
/// Most rows of a panel. Sums are read and written once for so many products: on an EPYC of Zen 5, a product of 2048²
/// matrices takes 1.07 times as long with 256 rows.
const DEEP: usize = 512;
/// Most elements of the panels that a thread copies at a time.
const PACKED: usize = 48 << 10;
/// Rows of the left operand that stay in the second-level cache beside those panels.
const HIGH: usize = 96;
/// Sums of so few products are limited by the writes of results: the writes of some rows follow each other in memory.
const SHALLOW: usize = 64;
const LOW: usize = 16;
/// Most sums that are still in the first-level cache when all of them are there.
const NEAR: usize = 4 << 10;
/// Most rows of the right operand that are copied or read by strips at a time.
pub(super) const STRIP: usize = 256;
/// Most columns behind the last whole panel, and fewest elements of a column, that are multiplied as dot products.
const LAST: usize = 4;
const DEEP_COLUMNS: usize = 64;
/// Most elements of a dot product at a time: some columns of as many stay in the first-level cache.
const LONG: usize = 1024;

/// A block: some rows and columns of one of the products.
#[derive(Debug)]
pub(super) struct ProductBlock {
    pub index: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

/// The address of the sums of a block, in rows that are `stride` elements apart.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub start: *mut f32,
    pub stride: usize,
}

/// The epilogue of some columns of a block: the operations that follow its rows, and the first of the columns.
type Finish<'l> = Option<(&'l RowLinks<'l>, usize)>;

/// Computes the sums of `block`. Returns whether it also computed their results, by the links of the block's rows.
///
/// # Safety
/// All sums of the block can be written at `sums` by this call alone.
pub(super) unsafe fn multiply<'l>(
    kernel: &Kernel,
    floats: &F32Operands<'_>,
    block: &ProductBlock,
    links: &dyn Fn() -> Option<RowLinks<'l>>,
    sums: Sums,
    copies: &mut PackBuffers,
) -> bool {
    let [m, n, k] = floats.size;
    let ([row, column], copied) = (floats.w.strides(), floats.w.is_only_copied());
    let ProductBlock { index, rows, columns } = block;
    // SAFETY: as the caller promises.
    unsafe {
        if floats.by_dots {
            by_dots(kernel, floats, block, sums, copies);
            return false;
        }
        let end = columns.end.min(n - last_columns(kernel, [n, k])).max(columns.start);
        let (some, last) = (columns.start..end, end..columns.end);
        let block = &ProductBlock { index: *index, rows: rows.clone(), columns: some };
        let width = block.columns.len();
        // The order of additions depends on the whole product, not on the block: runs before and after panels are kept, and
        // runs on any number of threads, give the same bits.
        let elements = k * if m <= FEW { n } else { width };
        let links = match m {
            _ if width == 0 => links(),
            _ if floats.panels.is_some() => {
                let links = links();
                let finish = links.as_ref().map(|links| (links, 0));
                by_kept_panels(kernel, floats, block, sums, copies, finish);
                links
            }
            1 if !floats.by_panels && (copied || column == 1) => {
                by_row(floats, block, sums, copies);
                None
            }
            _ if !copied
                && column == 1
                && (rows.len() <= UNPACKED_ROWS && fits_in_place(row, elements)
                    || rows.len() <= LOW && k <= SHALLOW) =>
            {
                let links = links();
                let finish = links.as_ref().map(|links| (links, 0));
                in_place(kernel, floats, block, sums, copies, finish);
                links
            }
            ..=FEW if !copied && !floats.by_panels => {
                by_strips(kernel, floats, block, sums, copies);
                None
            }
            _ => {
                let links = links();
                let finish = links.as_ref().map(|links| (links, 0));
                by_panels(kernel, floats, block, sums, copies, finish);
                links
            }
        };
        if !last.is_empty() {
            let sums = Sums { start: sums.start.add(width), ..sums };
            let last = ProductBlock { index: *index, rows: rows.clone(), columns: last };
            by_copied_columns(kernel, floats, &last, sums, copies);
            if let Some(links) = &links {
                let columns = [width, last.columns.len()];
                links.finish([0, rows.len()], columns, sums.start, sums.stride);
            }
        }
        links.is_some()
    }
}

/// The number of columns behind the last whole panel that are multiplied as dot products, or of all columns if they are as
/// few: a tile of few columns reads more than it multiplies. The number depends on the right operand alone, so that all
/// blocks and runs add in one order.
pub(super) fn last_columns(kernel: &Kernel, [n, k]: [usize; 2]) -> usize {
    let rest = n % kernel.panel_width;
    if k >= DEEP_COLUMNS && rest <= LAST { rest } else { 0 }
}

/// Returns whether so many elements, whose rows lie `row` elements apart, are read where they lie.
pub(super) fn fits_in_place(row: isize, elements: usize) -> bool {
    let most = if row.unsigned_abs().is_multiple_of(CONFLICT_STRIDE) {
        UNPACKED_IN_CONFLICT
    } else {
        UNPACKED
    };
    elements <= most
}

/// Returns the length of equal parts of `0..k`, at most [`DEEP`].
fn deep(k: usize) -> usize {
    k.div_ceil(k.div_ceil(DEEP))
}

/// Returns whether a product by panels writes each sum once, and all sums before the first link.
pub(super) fn is_one_pass([m, n, k]: [usize; 3]) -> bool {
    k <= DEEP && m * n <= NEAR
}

/// Multiplies panels that an earlier run packed. The block begins with a panel.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_kept_panels(
    kernel: &Kernel,
    F32Operands { size: [.., k], x, panels, .. }: &F32Operands<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    sums: Sums,
    copies: &mut PackBuffers,
    finish: Finish<'_>,
) {
    let pitch = kernel.panel_width * k;
    assert_eq!(columns.start % kernel.panel_width, 0, "blocks are whole panels");
    let data = &panels.unwrap_or_default()[columns.start / kernel.panel_width * pitch..];
    for depth in ranges(*k, deep(*k)) {
        let x = rows_of(x, *index, [rows, &depth], &mut copies.x);
        let w = Panels::Packed { data: &data[depth.start * kernel.panel_width..], pitch };
        let size = [rows.len(), columns.len(), depth.len()];
        let (product, finish) = (PanelProduct { size, x, w }, finish.filter(|_| depth.end == *k));
        // SAFETY: as the caller promises. The first step writes all sums.
        unsafe { multiply_panels(kernel, &product, sums, depth.start > 0, finish) };
    }
}

/// Adds up products of a row with the rows of the right operand, which are contiguous or copied.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_row(
    F32Operands { size: [.., k], x, w, .. }: &F32Operands<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    sums: Sums,
    copies: &mut PackBuffers,
) {
    // SAFETY: the one row has as many elements as the block has columns, which this call alone writes. All of them exist
    // and hold numbers of a kind already.
    let out = unsafe { std::slice::from_raw_parts_mut(sums.start, columns.len()) };
    out.fill(0.0);
    for depth in ranges(*k, STRIP) {
        let x = rows_of(x, *index, [rows, &depth], &mut copies.x);
        let w = rows_of(w, *index, [&depth, columns], &mut copies.w);
        gemv::add_product(&x.data[..depth.len()], w.data, w.stride, out);
    }
}

/// Multiplies rows with panels of the right operand where it lies.
///
/// # Safety
/// As for [`multiply`].
unsafe fn in_place(
    kernel: &Kernel,
    F32Operands { size: [.., k], x, w, .. }: &F32Operands<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    sums: Sums,
    copies: &mut PackBuffers,
    finish: Finish<'_>,
) {
    for depth in ranges(*k, deep(*k)) {
        let x = rows_of(x, *index, [rows, &depth], &mut copies.x);
        let w = Panels::InPlace(rows_of(w, *index, [&depth, columns], &mut copies.w));
        let size = [rows.len(), columns.len(), depth.len()];
        let (product, finish) = (PanelProduct { size, x, w }, finish.filter(|_| depth.end == *k));
        // SAFETY: as the caller promises. The first step writes all sums.
        unsafe { multiply_panels(kernel, &product, sums, depth.start > 0, finish) };
    }
}

/// Computes dot products of rows and columns where they lie.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_dots(
    kernel: &Kernel,
    F32Operands { size: [.., k], x, w, .. }: &F32Operands<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    Sums { start, stride }: Sums,
    copies: &mut PackBuffers,
) {
    let pitch = w.strides()[1] as usize;
    for depth in ranges(*k, LONG) {
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
    F32Operands { size: [.., k], x, w, .. }: &F32Operands<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    Sums { start, stride }: Sums,
    copies: &mut PackBuffers,
) {
    for row in 0..rows.len() {
        // SAFETY: as the caller promises.
        unsafe { start.add(row * stride).write_bytes(0, columns.len()) };
    }
    for depth in ranges(*k, STRIP) {
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
    F32Operands { size: [.., k], x, w, .. }: &F32Operands<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    Sums { start, stride }: Sums,
    PackBuffers { x: x_copy, w: panels, row_major }: &mut PackBuffers,
    finish: Finish<'_>,
) {
    let deep = deep(*k);
    let wide = (PACKED / deep).next_multiple_of(kernel.panel_width);
    for left in columns.clone().step_by(wide) {
        let some = left..columns.end.min(left + wide);
        for depth in ranges(*k, deep) {
            w.pack(*index, [&depth, &some], kernel.panel_width, (panels, row_major));
            let x = rows_of(x, *index, [rows, &depth], x_copy);
            let size = [rows.len(), some.len(), depth.len()];
            let w = Panels::Packed { data: panels, pitch: kernel.panel_width * depth.len() };
            let position = left - columns.start;
            let sums = Sums { start: start.wrapping_add(position), stride };
            let finish = finish.filter(|_| depth.end == *k).map(|(links, _)| (links, position));
            // SAFETY: as the caller promises. The first step writes all sums.
            unsafe {
                let product = PanelProduct { size, x, w };
                multiply_panels(kernel, &product, sums, depth.start > 0, finish);
            }
        }
    }
}

/// Computes sums of panels, or adds to them if there are `more`. They are finished while they are in the cache.
///
/// # Safety
/// As for the kernel's `panels`.
unsafe fn multiply_panels(
    kernel: &Kernel,
    product: &PanelProduct<'_>,
    Sums { start, stride }: Sums,
    more: bool,
    finish: Finish<'_>,
) {
    let [all, columns, depth] = product.size;
    let (high, wide) = match finish {
        _ if depth <= SHALLOW => (LOW, columns),
        Some(_) if all * columns > NEAR => (HIGH, kernel.panel_width),
        _ => (HIGH, columns),
    };
    for row in (0..all).step_by(high) {
        let x = Rows { data: &product.x.data[row * product.x.stride..], ..product.x };
        let rows = high.min(all - row);
        let mut at = 0;
        while at < columns {
            let left = columns - at;
            // The kernel cuts the last columns into tiles of about equal widths.
            let width = if left < 2 * wide { left } else { wide };
            let w = match product.w {
                Panels::Packed { data, pitch } => {
                    Panels::Packed { data: &data[at / kernel.panel_width * pitch..], pitch }
                }
                Panels::InPlace(rows) => Panels::InPlace(Rows { data: &rows.data[at..], ..rows }),
                Panels::Scattered(data, offsets) => Panels::Scattered(&data[at..], offsets),
            };
            let product = PanelProduct { size: [rows, width, depth], x, w };
            let sums = start.wrapping_add(row * stride + at);
            // SAFETY: as the caller promises. The links are those of the rows and columns that were just multiplied.
            unsafe {
                kernel.panels(&product, sums, stride, more);
                if let Some((links, column)) = finish {
                    links.finish([row, rows], [column + at, width], sums, stride);
                }
            }
            at += width;
        }
    }
}

/// Computes dot products of rows and copies of columns.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_copied_columns(
    kernel: &Kernel,
    F32Operands { size: [.., k], x, w, .. }: &F32Operands<'_>,
    ProductBlock { index, rows, columns }: &ProductBlock,
    Sums { start, stride }: Sums,
    PackBuffers { x: x_copy, w: copy, row_major }: &mut PackBuffers,
) {
    for depth in ranges(*k, LONG) {
        w.copy(*index, [depth.clone(), columns.clone()], row_major);
        copy.resize(columns.len() * depth.len(), 0.0);
        for (column, copy) in copy.chunks_exact_mut(depth.len()).enumerate() {
            for (to, row) in copy.iter_mut().zip(row_major.chunks_exact(columns.len())) {
                *to = row[column];
            }
        }
        let x = rows_of(x, *index, [rows, &depth], x_copy);
        let w = Rows { data: copy, stride: depth.len() };
        let size = [rows.len(), columns.len(), depth.len()];
        // SAFETY: as the caller promises. The first step writes all sums.
        unsafe { kernel.dots(&DotProducts { size, x, w }, start, stride, depth.start > 0) };
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
