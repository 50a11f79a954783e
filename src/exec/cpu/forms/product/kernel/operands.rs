//! The operands of a kernel: rows in memory and panels.

/// Rows that are contiguous, at equal distances.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
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
pub(crate) struct PanelProduct<'a> {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: Rows<'a>,
    pub w: Panels<'a>,
}

/// The right operand of a product in panels of the kernel's columns.
#[derive(Clone, Copy)]
pub(crate) enum Panels<'a> {
    /// Panels at equal distances, each a small matrix in row-major order. The last may have any elements beyond the last
    /// column.
    Packed { data: &'a [f32], pitch: usize },
    /// The rows of a matrix, where they lie.
    InPlace(Rows<'a>),
    /// Rows at the offsets in the data. Vectors read past the last column, but not past the data.
    Scattered(&'a [f32], &'a [usize]),
}

/// Rows times a matrix whose columns are contiguous.
pub(crate) struct DotProducts<'a> {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: Rows<'a>,
    /// The columns.
    pub w: Rows<'a>,
}

/// The rows of a matrix that lies by columns, times rows where they lie.
pub(crate) struct TransposedLeftProduct<'a> {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    /// The columns of the left operand.
    pub x: Rows<'a>,
    pub w: Rows<'a>,
}

/// A few rows times a matrix whose rows are contiguous.
pub(crate) struct StripProduct<'a> {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: Rows<'a>,
    pub w: Rows<'a>,
}

/// The rows of a left operand, by address.
pub(crate) trait LeftRows: Copy {
    /// True if the right operand may lie in any way, and false if it lies by rows.
    const TAKES_ANY: bool;
    /// The address of element `k` of a row.
    fn element(self, row: usize, k: usize) -> *const f32;
    /// The rows from element `k` on.
    fn from(self, k: usize) -> Self;
    /// The rows from row `row` on.
    fn below(self, row: usize) -> Self;
}

/// Contiguous rows at equal distances.
#[derive(Clone, Copy)]
pub(crate) struct ByRows {
    pub start: *const f32,
    pub stride: usize,
}

impl LeftRows for ByRows {
    const TAKES_ANY: bool = true;

    #[inline(always)]
    fn element(self, row: usize, k: usize) -> *const f32 {
        self.start.wrapping_add(row * self.stride + k)
    }

    #[inline(always)]
    fn from(self, k: usize) -> Self {
        Self { start: self.start.wrapping_add(k), ..self }
    }

    #[inline(always)]
    fn below(self, row: usize) -> Self {
        Self { start: self.start.wrapping_add(row * self.stride), ..self }
    }
}

/// Contiguous columns at equal distances.
#[derive(Clone, Copy)]
pub(crate) struct ByColumns {
    pub start: *const f32,
    pub stride: usize,
}

impl LeftRows for ByColumns {
    const TAKES_ANY: bool = false;

    #[inline(always)]
    fn element(self, row: usize, k: usize) -> *const f32 {
        self.start.wrapping_add(row + k * self.stride)
    }

    #[inline(always)]
    fn from(self, k: usize) -> Self {
        Self { start: self.start.wrapping_add(k * self.stride), ..self }
    }

    #[inline(always)]
    fn below(self, row: usize) -> Self {
        Self { start: self.start.wrapping_add(row), ..self }
    }
}

/// The rows of a panel, by address.
pub(crate) trait PanelRows: Copy {
    /// Elements from those that are read to those that are fetched meanwhile, if the rows follow one another.
    const AHEAD: Option<usize> = None;
    /// The address of a row.
    ///
    /// # Safety
    /// The row exists.
    unsafe fn row(self, k: usize) -> *const f32;
    /// The rows from row `k` on.
    fn from(self, k: usize) -> Self;
}

/// Rows at equal distances. If they `FOLLOW` one another, a processor by itself fetches too few of them from beyond the
/// caches of its own: 8 rows times 4 MB of panels took 226 µs on one core, and 192 µs with hints.
#[derive(Clone, Copy)]
pub(crate) struct Stepped<const FOLLOW: bool> {
    pub start: *const f32,
    pub step: usize,
}

impl<const FOLLOW: bool> PanelRows for Stepped<FOLLOW> {
    const AHEAD: Option<usize> = if FOLLOW { Some(1024) } else { None };

    #[inline(always)]
    unsafe fn row(self, k: usize) -> *const f32 {
        self.start.wrapping_add(k * self.step)
    }

    #[inline(always)]
    fn from(self, k: usize) -> Self {
        Self { start: self.start.wrapping_add(k * self.step), ..self }
    }
}

/// Rows at any distances from the start.
#[derive(Clone, Copy)]
pub(crate) struct Scattered {
    pub start: *const f32,
    pub offsets: *const usize,
}

impl PanelRows for Scattered {
    #[inline(always)]
    unsafe fn row(self, k: usize) -> *const f32 {
        // SAFETY: the row exists, as the caller promises.
        self.start.wrapping_add(unsafe { *self.offsets.add(k) })
    }

    #[inline(always)]
    fn from(self, k: usize) -> Self {
        Self { offsets: self.offsets.wrapping_add(k), ..self }
    }
}
