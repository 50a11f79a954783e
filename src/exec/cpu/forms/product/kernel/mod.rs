//! The innermost loops of products of `f32`, compiled for the instructions of a kind of processor.

mod dot_tiles;
mod operands;
mod tiles;
mod transpose;

pub(crate) use self::operands::{
    DotProducts, PanelProduct, Panels, Rows, StripProduct, TransposedLeftProduct,
};
use crate::exec::cpu::vectors::SimdVector;
use crate::exec::cpu::vectors::by_processor::loops;

loops! {
    /// The functions for one set of instructions.
    pub(crate) struct Kernel {
        /// Columns of a panel.
        panel_width: VECTORS * V::LEN,
        /// Lanes of a vector.
        lanes: V::LEN,
    }

    // Vectors of a panel, and rows of a tile. Twelve sums fill 16 registers beside the elements that they take in, and
    // 24 sums fill 32.
    const VECTORS = [3, 2, 3];
    const HIGH = [8, 6, 4];

    unsafe fn panels(product: &PanelProduct<'_>, out: *mut f32, stride: usize, more: bool) =
        tiles::panels::<V, VECTORS, HIGH>(product, out, stride, more);

    unsafe fn transposed_left(
        product: &TransposedLeftProduct<'_>,
        out: *mut f32,
        stride: usize,
        more: bool,
    ) = tiles::transposed_left::<V, VECTORS, HIGH>(product, out, stride, more);

    unsafe fn dots(product: &DotProducts<'_>, out: *mut f32, stride: usize, more: bool) =
        dot_tiles::dots::<V>(product, out, stride, more);

    unsafe fn strips(product: &StripProduct<'_>, out: *mut f32, stride: usize) =
        tiles::strips::<V>(product, out, stride);

    unsafe fn transpose(size: [usize; 2], from: Rows<'_>, scale: f32, out: *mut f32) =
        transpose::transpose::<V>(size, from, scale, VECTORS * V::LEN, out);
}

impl Kernel {
    /// Computes the sums of `product`, and adds them to those at `out` if `more`.
    ///
    /// # Safety
    /// At `out`, as many rows and columns as the product has can be written by this call alone, rows `stride` elements
    /// apart. If `more`, they hold numbers.
    pub unsafe fn panels(
        &self,
        product: &PanelProduct<'_>,
        out: *mut f32,
        stride: usize,
        more: bool,
    ) {
        let [rows, columns, depth] = product.size;
        product.x.check(rows, depth);
        match product.w {
            Panels::Packed { data, pitch } => {
                let panels = columns.div_ceil(self.panel_width);
                assert!(
                    panels == 0 || (panels - 1) * pitch + self.panel_width * depth <= data.len()
                );
            }
            Panels::InPlace(w) => w.check(depth, columns),
            Panels::Scattered(data, offsets) => {
                let last = offsets[..depth].iter().max().copied().unwrap_or(0);
                assert!(last + columns.next_multiple_of(self.lanes) <= data.len());
            }
        }
        // SAFETY: the processor has the instructions (`all`). All elements of the operands exist, as asserted, and
        // the rest is as the caller promises.
        unsafe { (self.panels)(product, out, stride, more) }
    }

    /// As [`panels`](Self::panels), for a left operand that lies transposed and a right one that lies by rows.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn transposed_left(
        &self,
        product: &TransposedLeftProduct<'_>,
        out: *mut f32,
        stride: usize,
        more: bool,
    ) {
        let [rows, columns, depth] = product.size;
        product.x.check(depth, rows);
        product.w.check(depth, columns);
        // SAFETY: as in `panels`.
        unsafe { (self.transposed_left)(product, out, stride, more) }
    }

    /// Copies `columns` of `depth` elements each, which are the rows of `from`, to panels in `out`, times `scale`. The
    /// last panel gets any elements beyond the last column.
    pub fn transpose(
        &self,
        [columns, depth]: [usize; 2],
        from: Rows<'_>,
        scale: f32,
        out: &mut [f32],
    ) {
        from.check(columns, depth);
        assert!(columns.next_multiple_of(self.panel_width) * depth <= out.len());
        // SAFETY: the processor has the instructions (`all`). All columns exist and `out` has all panels, as asserted.
        unsafe { (self.transpose)([columns, depth], from, scale, out.as_mut_ptr()) }
    }

    /// As [`panels`](Self::panels), for columns that are contiguous.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn dots(&self, product: &DotProducts<'_>, out: *mut f32, stride: usize, more: bool) {
        let [rows, columns, depth] = product.size;
        product.x.check(rows, depth);
        product.w.check(columns, depth);
        // SAFETY: as in `panels`.
        unsafe { (self.dots)(product, out, stride, more) }
    }

    /// Adds the sums of `product`, whose operands both have contiguous rows, to those at `out`.
    ///
    /// # Safety
    /// As in [`panels`](Self::panels). The sums at `out` hold numbers.
    pub unsafe fn strips(&self, product: &StripProduct<'_>, out: *mut f32, stride: usize) {
        let [rows, columns, depth] = product.size;
        product.x.check(rows, depth);
        product.w.check(depth, columns);
        // SAFETY: as in `panels`.
        unsafe { (self.strips)(product, out, stride) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers, whose sums are exact.
    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|at| ((at * 7 + seed * 13) % 23) as f32 - 11.0).collect()
    }

    /// Calls `check` for sizes around those of tiles and vectors, with a gap after each row.
    fn for_sizes(check: impl Fn(&Kernel, [usize; 3], usize)) {
        let sizes: [&[usize]; 3] = if cfg!(miri) {
            [&[0, 1, 5], &[1, 13], &[1, 5]]
        } else {
            [
                &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 17],
                &[1, 3, 4, 7, 8, 15, 16, 17, 33, 48, 50, 97],
                &[1, 2, 3, 4, 5, 8, 17, 31],
            ]
        };
        for kernel in Kernel::all() {
            for &rows in sizes[0] {
                for &columns in sizes[1] {
                    for &depth in sizes[2] {
                        check(kernel, [rows, columns, depth], (rows + depth) % 3);
                    }
                }
            }
        }
    }

    /// Checks the sums in `out` against those of `w(k, column)`, added to ones if `more`, and the gaps between rows.
    fn compare(
        [rows, columns, depth]: [usize; 3],
        (x, w): (Rows<'_>, impl Fn(usize, usize) -> f32),
        (out, gap): (&[f32], usize),
        more: bool,
    ) {
        for row in 0..rows {
            let own = &out[row * (columns + gap)..];
            for (column, &got) in own.iter().enumerate().take(columns) {
                let term =
                    |k: usize| f64::from(x.data[row * x.stride + k]) * f64::from(w(k, column));
                let want = (0..depth).map(term).sum::<f64>() + f64::from(u8::from(more));
                let same = f64::from(got) == want || (got.is_nan() && want.is_nan());
                assert!(same, "{rows} {columns} {depth} [{row}, {column}]: {got} for {want}");
            }
            assert!(own[columns..columns + gap].iter().all(|&rest| rest == 1.0));
        }
    }

    #[test]
    fn panels_of_any_size() {
        for_sizes(|kernel, size @ [rows, columns, depth], gap| {
            let wide = kernel.panel_width;
            let x = numbers(rows * (depth + gap), 1);
            let x = Rows { data: &x, stride: depth + gap };
            let w = numbers(columns.next_multiple_of(wide) * depth, 2);
            let at = |k, column| w[column / wide * wide * depth + k * wide + column % wide];
            for more in [false, true] {
                let mut out = vec![1.0; rows * (columns + gap)];
                let product =
                    PanelProduct { size, x, w: Panels::Packed { data: &w, pitch: wide * depth } };
                // SAFETY: `out` has all rows.
                unsafe { kernel.panels(&product, out.as_mut_ptr(), columns + gap, more) };
                compare(size, (x, at), (&out, gap), more);
            }
        });
    }

    #[test]
    fn panels_in_place_of_any_size() {
        for_sizes(|kernel, size @ [rows, columns, depth], gap| {
            let x = numbers(rows * (depth + gap), 1);
            let x = Rows { data: &x, stride: depth + gap };
            // No element follows the last.
            let w = numbers((depth - 1) * (columns + gap) + columns, 2);
            let at = |k, column| w[k * (columns + gap) + column];
            for more in [false, true] {
                let mut out = vec![1.0; rows * (columns + gap)];
                let w = Panels::InPlace(Rows { data: &w, stride: columns + gap });
                // SAFETY: `out` has all rows.
                unsafe {
                    let product = PanelProduct { size, x, w };
                    kernel.panels(&product, out.as_mut_ptr(), columns + gap, more);
                };
                compare(size, (x, at), (&out, gap), more);
            }
        });
    }

    #[test]
    fn left_operands_by_columns_of_any_size() {
        for_sizes(|kernel, size @ [rows, columns, depth], gap| {
            let lies = numbers(depth * (rows + gap), 1);
            let rows_of = |row: usize| (0..depth).map(move |k| (row, k));
            let copy: Vec<f32> =
                (0..rows).flat_map(rows_of).map(|(row, k)| lies[k * (rows + gap) + row]).collect();
            let x = Rows { data: &lies, stride: rows + gap };
            let w = numbers((depth - 1) * (columns + gap) + columns, 2);
            let at = |k, column| w[k * (columns + gap) + column];
            for more in [false, true] {
                let mut out = vec![1.0; rows * (columns + gap)];
                let product =
                    TransposedLeftProduct { size, x, w: Rows { data: &w, stride: columns + gap } };
                // SAFETY: `out` has all rows.
                unsafe { kernel.transposed_left(&product, out.as_mut_ptr(), columns + gap, more) };
                let x = Rows { data: &copy, stride: depth };
                compare(size, (x, at), (&out, gap), more);
            }
        });
    }

    #[test]
    fn columns_of_any_number_and_length_go_to_their_panels() {
        for_sizes(|kernel, [gap, columns, depth], _| {
            let from = numbers(columns * (depth + gap), 6);
            let wide = kernel.panel_width;
            let mut out = vec![f32::NAN; columns.next_multiple_of(wide) * depth + 1];
            let rows = Rows { data: &from, stride: depth + gap };
            kernel.transpose([columns, depth], rows, 2.0, &mut out);
            for column in 0..columns {
                for k in 0..depth {
                    let got = out[column / wide * wide * depth + k * wide + column % wide];
                    assert_eq!(got, 2.0 * from[column * (depth + gap) + k], "[{column}, {k}]");
                }
            }
            assert!(out.last().is_some_and(|last| last.is_nan()), "nothing follows the panels");
        });
    }

    #[test]
    fn scattered_rows_of_any_size() {
        for_sizes(|kernel, size @ [rows, columns, depth], gap| {
            let x = numbers(rows * (depth + gap), 7);
            let x = Rows { data: &x, stride: depth + gap };
            let offsets: Vec<usize> = (0..depth).map(|k| k * 5 % 7 * 3 + k / 7).collect();
            let last = offsets.iter().max().copied().unwrap_or(0);
            let w = numbers(last + columns.next_multiple_of(kernel.lanes), 8);
            let at = |k: usize, column| w[offsets[k] + column];
            for more in [false, true] {
                let mut out = vec![1.0; rows * (columns + gap)];
                let product = PanelProduct { size, x, w: Panels::Scattered(&w, &offsets) };
                // SAFETY: `out` has all rows.
                unsafe { kernel.panels(&product, out.as_mut_ptr(), columns + gap, more) };
                compare(size, (x, at), (&out, gap), more);
            }
        });
    }

    #[test]
    fn dots_of_any_size() {
        for_sizes(|kernel, size @ [rows, columns, depth], gap| {
            let x = numbers(rows * (depth + gap), 3);
            let x = Rows { data: &x, stride: depth + gap };
            let mut w = numbers(columns * (depth + gap), 4);
            w[0] = f32::INFINITY;
            w[depth - 1] = f32::NAN;
            let at = |k, column| w[column * (depth + gap) + k];
            for more in [false, true] {
                let mut out = vec![1.0; rows * (columns + gap)];
                let product = DotProducts { size, x, w: Rows { data: &w, stride: depth + gap } };
                // SAFETY: `out` has all rows.
                unsafe { kernel.dots(&product, out.as_mut_ptr(), columns + gap, more) };
                compare(size, (x, at), (&out, gap), more);
            }
        });
    }

    #[test]
    fn strips_of_any_size() {
        for_sizes(|kernel, size @ [rows, columns, depth], gap| {
            let x = numbers(rows * (depth + gap), 5);
            let x = Rows { data: &x, stride: depth + gap };
            let mut w = numbers(depth * (columns + gap), 6);
            w[0] = f32::NEG_INFINITY;
            let at = |k, column| w[k * (columns + gap) + column];
            let mut out = vec![1.0; rows * (columns + gap)];
            let product = StripProduct { size, x, w: Rows { data: &w, stride: columns + gap } };
            // SAFETY: `out` has all rows, and they hold ones.
            unsafe { kernel.strips(&product, out.as_mut_ptr(), columns + gap) };
            compare(size, (x, at), (&out, gap), true);
        });
    }
}
