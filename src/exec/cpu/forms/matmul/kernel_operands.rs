//! The operands of a kernel: rows in memory and panels.

/// Rows that are contiguous, at equal distances.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// The elements from the first of the first row on.
    pub data: &'a [f32],
    pub stride: usize,
}

impl<'a> Rows<'a> {
    /// Asserts that there are `rows` of `len` elements.
    pub fn check(&self, rows: usize, len: usize) {
        assert!(rows == 0 || (rows - 1) * self.stride + len <= self.data.len());
    }

    pub fn row(&self, row: usize) -> *const f32 {
        self.data.as_ptr().wrapping_add(row * self.stride)
    }
}

/// Rows times panels.
pub(super) struct PanelProduct<'a> {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: Rows<'a>,
    pub w: Panels<'a>,
}

/// The right operand of a product in panels of the kernel's columns.
#[derive(Clone, Copy)]
pub(super) enum Panels<'a> {
    /// One panel after the other, each a small matrix in row-major order. The last may have any elements beyond the last
    /// column.
    Packed(&'a [f32]),
    /// The rows of a matrix, where they lie.
    InPlace(Rows<'a>),
    /// Rows at the offsets in the data. Vectors read past the last column, but not past the data.
    Scattered(&'a [f32], &'a [usize]),
}

/// Rows times a matrix whose columns are contiguous.
pub(super) struct DotProducts<'a> {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: Rows<'a>,
    /// The columns.
    pub w: Rows<'a>,
}

/// A few rows times a matrix whose rows are contiguous.
pub(super) struct StripProduct<'a> {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: Rows<'a>,
    pub w: Rows<'a>,
}
