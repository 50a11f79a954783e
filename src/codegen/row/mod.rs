//! Row normalisations: rows in registers where they fit, else statistics of rows and then the outputs.

mod body;
mod layout;
mod statistics;

use self::body::Body;
use self::layout::Row;
use self::statistics::helpers;
use super::Dispatch;
use super::kernel::{Kernel, passed};
use super::row_units::Phase;
use crate::base::dtype::Ty;
use crate::plan::RowForm;

/// Lowers a row form; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(form: &RowForm, kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
    let row = Row::new(form, &kernel());
    Phase::of(row.parts).iter().map(|&phase| dispatch(&row, kernel(), phase)).collect()
}

fn dispatch(row: &Row, mut kernel: Kernel<'_>, phase: Phase) -> Dispatch {
    let rows = &row.rows;
    let scratch = rows.bind(&mut kernel, phase);
    helpers(row.kind).iter().for_each(|h| kernel.needs(h));
    let (bases, names) = rows.bases(&mut kernel);
    let (parameters, arguments) = (passed(&names).0, rows.arguments(&names));
    let body = Body { row, phase, arguments: &arguments, scratch: &scratch };
    let texts = body.texts(&mut kernel, &names);
    let (parts, count) = (kernel.size(row.parts), kernel.size(rows.count()));
    let holes = [
        ("functions", texts.functions),
        ("element", texts.element),
        ("shared", texts.shared),
        ("base_parameters", parameters),
        ("vector", rows.unit_type(Ty::F32)),
        ("builtins", texts.builtins),
        ("thread", texts.thread),
        ("slot", texts.slot),
        ("group_rows", row.share.rows().to_string()),
        ("parts", parts),
        ("rows", count),
        ("units", rows.units(&mut kernel)),
        ("bases", bases),
        ("body", texts.body),
    ];
    let groups = rows.count().div_ceil(row.share.rows()).saturating_mul(row.parts);
    let label = if phase == Phase::Partial { " (statistics)" } else { "" };
    kernel.dispatch(include_str!("../../../shaders/row.wgsl"), &holes, label, groups)
}
