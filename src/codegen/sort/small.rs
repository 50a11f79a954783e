//! Sorts of short rows, each in the workgroup memory of one workgroup.

use super::Sort;
use crate::codegen::Dispatch;
use crate::codegen::kernel::Kernel;

/// Elements that a workgroup sorts at least, if there are as many.
const LEAST: usize = 512;

/// The one dispatch of a sort of short rows.
pub(super) fn lower(sort: &Sort, mut kernel: Kernel<'_>) -> Dispatch {
    let span = sort.rows.len.next_power_of_two();
    let rows = sort.rows.count();
    let group_rows = (LEAST / span).clamp(1, rows.next_power_of_two());
    sort.rows.bind_outputs(&mut kernel);
    sort.rows.bind_operands(&mut kernel);
    let holes = [
        ("fetch", sort.fetch(&mut kernel)),
        ("write", sort.write(&mut kernel)),
        ("bitonic", bitonic(span, span * group_rows)),
        ("total", (span * group_rows).to_string()),
        ("span", span.to_string()),
        ("group_rows", group_rows.to_string()),
        ("rows", kernel.size(rows)),
        ("len", kernel.size(sort.rows.len)),
        ("count", kernel.size(sort.count)),
    ];
    let groups = rows.div_ceil(group_rows);
    kernel.dispatch(include_str!("../../../shaders/sort_small.wgsl"), &holes, "", groups)
}

/// The arrays `keys` and `positions` of `total` elements, and the function `sort`, which sorts each `span` of them.
pub(super) fn bitonic(span: usize, total: usize) -> String {
    let (span, total) = (span.to_string(), total.to_string());
    let holes = [("span", &*span), ("total", &*total)];
    crate::codegen::kernel::template::fill(
        include_str!("../../../shaders/sort_bitonic.wgsl"),
        &holes,
    )
}
