//! Sorts: in workgroup memory where rows are short, by selection where few of a row are wanted, else by digits.

mod radix;
mod select;

use super::Dispatch;
use super::kernel::{Kernel, WORKGROUP, passed};
use super::rows::Rows;
use crate::base::dtype::{DType, Ty};
use crate::codegen::kernel::template::{fill, holes, indent, shader};
use crate::expr::Ref;
use crate::expr::wgsl::type_name;
use crate::plan::{SortForm, SortSchedule};

/// Lowers a sort; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(form: &SortForm, kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
    let sort = Sort::new(form, &kernel());
    match sort.schedule {
        SortSchedule::Group => vec![lower_small(&sort, kernel())],
        SortSchedule::Select { parts } => select::lower(&sort, kernel, parts),
        SortSchedule::Digits { .. } => radix::lower(&sort, kernel),
    }
}

/// A sort form.
struct Sort {
    rows: Rows,
    /// The number of elements of each row that are kept.
    count: usize,
    descending: bool,
    dtype: DType,
    prologue: Ref,
    schedule: SortSchedule,
    /// True if some output is where elements were.
    positions: bool,
}

impl Sort {
    fn new(form: &SortForm, kernel: &Kernel<'_>) -> Self {
        let SortForm { outer, len, count, dtype, prologue, descending, schedule } = form;
        let rows = Rows::one_by_one(kernel, outer, *len, *prologue);
        let positions = kernel.step.outputs.iter().any(|output| output.root != *prologue);
        let (count, dtype, prologue) = (*count, *dtype, *prologue);
        let (descending, schedule) = (*descending, *schedule);
        Self { rows, count, descending, dtype, prologue, schedule, positions }
    }

    /// The function `fetch`, which gives the key of element `j` of a row. Equal keys are of equal elements, and keys
    /// are in the order that is asked for.
    fn fetch(&self, kernel: &mut Kernel<'_>) -> String {
        let ty = self.dtype.lane();
        let (bases, names) = self.rows.bases(kernel);
        let (parameters, arguments) = passed(&names);
        let (prologue, element) = self.rows.element(kernel, &names);
        let key = match ty {
            Ty::F32 => {
                kernel.needs("p_key");
                "p_key(x)"
            }
            Ty::I32 => "bitcast<u32>(x) ^ 0x80000000u",
            Ty::U32 => "x",
            Ty::Bool => "select(0u, 1u, x)",
        };
        let (not, ty) = (if self.descending { "~" } else { "" }, type_name(ty));
        let element = indent(&element);
        let body =
            indent(&format!("{bases}let x = element(j{arguments});\nreturn {not}({key});\n"));
        format!(
            "{prologue}\nfn element(j: u32{parameters}) -> {ty} {{\n{element}}}\n\n\
             fn fetch(row: u32, j: u32) -> u32 {{\n{body}}}\n"
        )
    }

    /// The function `write`, which stores the element of rank `j` of a row by its key and position.
    fn write(&self, kernel: &mut Kernel<'_>) -> String {
        let (mut text, bases) = self.rows.bases(kernel);
        let key = if self.descending { "~key" } else { "key" };
        let value = match self.dtype.lane() {
            Ty::F32 => {
                kernel.needs("p_of_key");
                format!("p_of_key({key})")
            }
            Ty::I32 => format!("bitcast<i32>(({key}) ^ 0x80000000u)"),
            Ty::U32 => format!("({key})"),
            Ty::Bool => format!("(({key}) != 0u)"),
        };
        for output in 0..kernel.step.outputs.len() {
            let values = kernel.step.outputs[output].root == self.prologue;
            let at = self.rows.at(kernel, &bases, output, 1);
            let value = if values { &value } else { "position" };
            text.push_str(&kernel.store(output, &at, value));
        }
        let body = indent(&text);
        format!("fn write(row: u32, j: u32, key: u32, position: u32) {{\n{body}}}\n")
    }

    /// A workgroup for each of `groups`, numbered `id`: statements at the start of `main`.
    fn each_group(&self, kernel: &mut Kernel<'_>, groups: usize) -> String {
        let groups = kernel.size(groups);
        format!("let id = {WORKGROUP};\nif id >= {groups} {{\n    return;\n}}\n")
    }
}

/// Elements that a workgroup sorts at least, if there are as many.
const LEAST: usize = 512;

/// The one dispatch of a sort of short rows.
fn lower_small(sort: &Sort, mut kernel: Kernel<'_>) -> Dispatch {
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
    kernel.dispatch(shader!("sort_small.wgsl"), &holes, "", groups)
}

/// The arrays `keys` and `positions` of `total` elements, and the function `sort`, which sorts each `span` of them.
fn bitonic(span: usize, total: usize) -> String {
    fill(shader!("sort_bitonic.wgsl"), &holes! { span, total })
}
