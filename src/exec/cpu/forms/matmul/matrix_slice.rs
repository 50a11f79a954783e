//! Products of matrices that lie in slices.

use gemm::Parallelism;

use super::gemm_call::{MatrixPointer, gemm};
use super::operand::Matrices;
use crate::base::shape::View;

/// A matrix of `f32` in a slice.
#[derive(Clone, Copy)]
pub(crate) struct MatrixSlice<'a> {
    pub data: &'a [f32],
    /// Index of the first element.
    pub start: i64,
    /// Strides of rows and columns.
    pub strides: [isize; 2],
}

impl<'a> MatrixSlice<'a> {
    /// Returns matrix `index` of a batch of words, from row `row` on.
    pub fn of(matrices: &'a Matrices<'_>, index: usize, row: usize) -> Self {
        let strides = matrices.strides();
        let start = matrices.start(index) + row as i64 * strides[0] as i64;
        Self { data: matrices.floats(), start, strides }
    }

    pub fn transposed(self) -> Self {
        let [row, column] = self.strides;
        Self { strides: [column, row], ..self }
    }

    /// The element at `row` and `column`, which lies in the data.
    pub fn at(&self, row: usize, column: usize) -> f32 {
        let [row_stride, column_stride] = self.strides;
        let at = row as isize * row_stride + column as isize * column_stride;
        self.data[(self.start as isize + at) as usize]
    }

    /// Returns whether the first `rows` and `columns` all lie in the data.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let dims = [rows, columns].as_slice().into();
        let strides = self.strides.iter().map(|&stride| stride as i64).collect();
        View { dims, strides, offset: self.start }.is_inside(self.data.len())
    }

    fn pointer(&self) -> MatrixPointer {
        let start = self.data.as_ptr().wrapping_offset(self.start as isize);
        MatrixPointer { start, strides: self.strides }
    }
}

/// Computes `out` = x·w for `[m, n, k]` on this thread, added to the elements of `out` if `more`.
pub(crate) fn multiply(
    [m, n, k]: [usize; 3],
    x: MatrixSlice<'_>,
    w: MatrixSlice<'_>,
    out: &mut [f32],
    more: bool,
) {
    assert!(out.len() == m * n && x.holds(m, k) && w.holds(k, n));
    let to = (out.as_mut_ptr(), n);
    // SAFETY: both matrices lie inside their slices and `out` has m·n elements, as asserted.
    unsafe { gemm([m, n, k], x.pointer(), w.pointer(), to, more, Parallelism::None) }
}
