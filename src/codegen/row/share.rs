//! A row form with its rows, and the share of a workgroup's threads in them.

use crate::codegen::kernel::{KernelBuilder, THREADS};
use crate::codegen::rows::CollapsedRows;
use crate::ops::RowKind;
use crate::plan::RowForm;

/// A row form.
pub(super) struct Row {
    pub kind: RowKind,
    pub rows: CollapsedRows,
    pub parts: usize,
    pub epsilon: Option<u16>,
    pub share: Share,
}

impl Row {
    pub fn new(form: &RowForm, kernel: &KernelBuilder<'_>) -> Self {
        let RowForm { kind, outer, len, prologue, epsilon, parts } = form;
        let rows = CollapsedRows::with_edges(kernel, (outer, *len, *prologue));
        let mut share = Share::new(&rows);
        if *parts > 1 {
            share.held = None;
        }
        Self { kind: *kind, rows, parts: *parts, epsilon: *epsilon, share }
    }
}

/// The share of a workgroup's threads in its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Threads of a row, a power of two.
    pub width: usize,
    /// Units that a thread holds in registers; `None` where the row is too long for that.
    pub held: Option<usize>,
}

impl Share {
    /// Rows of a workgroup.
    pub fn rows(self) -> usize {
        THREADS / self.width
    }

    fn new(rows: &CollapsedRows) -> Self {
        let (lanes, len) = (rows.lanes(), rows.len);
        let units = len / lanes;
        if rows.is_across() {
            let width = rows.width_across();
            let each = units.div_ceil(width);
            return Self { width, held: (each <= 16).then(|| few_sizes(each)) };
        }
        // Measured: neighbours of a short row are best read by neighbours, and four vectors a thread are enough.
        let each = match (lanes, units) {
            (4, ..=2) => 1,
            (4, ..=64) => 2,
            (1, 33..) => 8,
            _ => 4,
        };
        let width = units.div_ceil(each).next_power_of_two().min(THREADS);
        let held = (len <= RowForm::HELD).then(|| few_sizes(units.div_ceil(width)));
        Self { width, held }
    }
}

/// The next number of the form 2ⁿ or 3·2ⁿ, so that few kernels serve many lengths.
fn few_sizes(n: usize) -> usize {
    let power = n.next_power_of_two();
    if power >= 4 && n <= power / 4 * 3 { power / 4 * 3 } else { power }
}
