//! Row normalisations: rows in registers where they fit, else statistics of rows and then the outputs.

mod body;
mod share;
mod statistics;

use self::body::RowBody;
use self::share::Row;
use self::statistics::helpers;
use super::Dispatch;
use super::kernel::template::{holes, shader};
use super::kernel::{KernelBuilder, passed};
use crate::base::dtype::Ty;
use crate::codegen::rows::DispatchRole;
use crate::plan::RowForm;

/// Lowers a row form; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(form: &RowForm, kernel: &dyn Fn() -> KernelBuilder<'a>) -> Vec<Dispatch> {
    let row = Row::new(form, &kernel());
    DispatchRole::of(row.parts).iter().map(|&role| dispatch(&row, kernel(), role)).collect()
}

fn dispatch(row: &Row, mut kernel: KernelBuilder<'_>, role: DispatchRole) -> Dispatch {
    let rows = &row.rows;
    let scratch = rows.bind(&mut kernel, role, true);
    helpers(row.kind).iter().for_each(|h| kernel.needs(h));
    let (bases, names) = rows.bases(&mut kernel);
    // A long row folds once, which no subgroups are needed for.
    let subgroups = kernel.limits.subgroups.filter(|_| row.share.held.is_some());
    let (group_fold, mut holes) = rows.threads(row.share.width, subgroups);
    let (base_parameters, arguments) = (passed(&names).0, rows.arguments(&names));
    let body = RowBody { row, role, arguments: &arguments, scratch: &scratch, group_fold };
    holes.extend(body.holes(&mut kernel, &names));
    holes.extend(holes! {
        parts: kernel.size(row.parts), rows: kernel.size(rows.count()), base_parameters,
        vector: rows.unit_type(Ty::F32), units: rows.units(&mut kernel), bases,
    });
    let groups = rows.count().div_ceil(row.share.rows()).saturating_mul(row.parts);
    let label = if role == DispatchRole::Partial { " (statistics)" } else { "" };
    kernel.dispatch(shader!("row/row.wgsl"), &holes, label, groups)
}
