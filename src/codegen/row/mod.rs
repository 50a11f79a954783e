//! Row normalisations: rows in registers where they fit, else statistics of rows and then the outputs.

mod body;
mod statistics;

use self::body::RowBody;
use self::statistics::helpers;
use super::Dispatch;
use super::kernel::template::{holes, shader};
use super::kernel::{Kernel, THREADS, passed};
use crate::base::dtype::Ty;
use crate::codegen::rows::{Phase, Rows};
use crate::ops::RowKind;
use crate::plan::RowForm;

/// Lowers a row form; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(form: &RowForm, kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
    let row = Row::new(form, &kernel());
    Phase::of(row.parts).iter().map(|&phase| dispatch(&row, kernel(), phase)).collect()
}

fn dispatch(row: &Row, mut kernel: Kernel<'_>, phase: Phase) -> Dispatch {
    let rows = &row.rows;
    let scratch = rows.bind(&mut kernel, phase, true);
    helpers(row.kind).iter().for_each(|h| kernel.needs(h));
    let (bases, names) = rows.bases(&mut kernel);
    // A long row folds once, which no subgroups are needed for.
    let subgroups = kernel.limits.subgroups.filter(|_| row.share.held.is_some());
    let (group_fold, mut holes) = rows.threads(row.share.width, subgroups);
    let (base_parameters, arguments) = (passed(&names).0, rows.arguments(&names));
    let body = RowBody { row, phase, arguments: &arguments, scratch: &scratch, group_fold };
    holes.extend(body.holes(&mut kernel, &names));
    holes.extend(holes! {
        parts: kernel.size(row.parts), rows: kernel.size(rows.count()), base_parameters,
        vector: rows.unit_type(Ty::F32), units: rows.units(&mut kernel), bases,
    });
    let groups = rows.count().div_ceil(row.share.rows()).saturating_mul(row.parts);
    let label = if phase == Phase::Partial { " (statistics)" } else { "" };
    kernel.dispatch(shader!("row.wgsl"), &holes, label, groups)
}

/// A row form.
struct Row {
    pub kind: RowKind,
    pub rows: Rows,
    pub parts: usize,
    pub epsilon: Option<u16>,
    pub share: Share,
}

impl Row {
    pub fn new(form: &RowForm, kernel: &Kernel<'_>) -> Self {
        let RowForm { kind, outer, len, prologue, epsilon, parts } = form;
        let rows = Rows::with_edges(kernel, outer, *len, *prologue);
        let mut share = Share::new(&rows);
        if *parts > 1 {
            share.held = None;
        }
        Self { kind: *kind, rows, parts: *parts, epsilon: *epsilon, share }
    }
}

/// The share of a workgroup's threads in its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
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

    fn new(rows: &Rows) -> Self {
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
