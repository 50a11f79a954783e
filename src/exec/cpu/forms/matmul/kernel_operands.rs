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

    #[cfg(target_arch = "x86_64")]
    pub fn row(&self, row: usize) -> *const f32 {
        self.data.as_ptr().wrapping_add(row * self.stride)
    }
}

/// Rows times panels.
pub(super) struct PanelProduct<'a> {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: Rows<'a>,
    /// Panels of the kernel's columns, of which the last may have any elements beyond the last column. Each is a small
    /// matrix in row-major order.
    pub w: &'a [f32],
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
