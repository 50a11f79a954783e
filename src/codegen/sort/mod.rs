//! Sorts: in workgroup memory where rows are short, by selection where few of a row are wanted, else by digits.

mod keys;
mod radix;
mod select;

use self::keys::{SortKernel, bitonic};
use super::Dispatch;
use super::kernel::KernelBuilder;
use crate::codegen::kernel::template::{holes, shader};
use crate::plan::{SortForm, SortSchedule};

/// Lowers a sort; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(form: &SortForm, kernel: &dyn Fn() -> KernelBuilder<'a>) -> Vec<Dispatch> {
    let sort = SortKernel::new(form, &kernel());
    match sort.schedule {
        SortSchedule::Group => vec![lower_small(&sort, kernel())],
        SortSchedule::Select { parts } => select::lower(&sort, kernel, parts),
        SortSchedule::Digits { .. } => radix::lower(&sort, kernel),
    }
}

/// Elements that a workgroup sorts at least, if there are as many.
const LEAST: usize = 512;

/// The one dispatch of a sort of short rows.
fn lower_small(sort: &SortKernel, mut kernel: KernelBuilder<'_>) -> Dispatch {
    let span = sort.rows.len.next_power_of_two();
    let rows = sort.rows.count();
    let group_rows = (LEAST / span).clamp(1, rows.next_power_of_two());
    sort.rows.bind_outputs(&mut kernel);
    sort.rows.bind_operands(&mut kernel);
    let holes = holes! {
        fetch: sort.fetch(&mut kernel), write: sort.write(&mut kernel),
        bitonic: bitonic(span, span * group_rows), total: span * group_rows, span, group_rows,
        rows: kernel.size(rows), len: kernel.size(sort.rows.len), count: kernel.size(sort.count),
    };
    let groups = rows.div_ceil(group_rows);
    kernel.dispatch(shader!("sort/small.wgsl"), &holes, "", groups)
}
