//! A sort with its rows, and the functions that its kernels share: elements as keys, and keys as results.

use crate::base::dtype::{DType, Ty};
use crate::codegen::kernel::template::{fill, holes, indent, shader};
use crate::codegen::kernel::{KernelBuilder, WORKGROUP, passed};
use crate::codegen::rows::CollapsedRows;
use crate::expr::Ref;
use crate::expr::wgsl::type_name;
use crate::plan::{SortForm, SortSchedule};

/// A sort form.
pub(super) struct SortKernel {
    pub rows: CollapsedRows,
    /// The number of elements of each row that are kept.
    pub count: usize,
    pub descending: bool,
    pub dtype: DType,
    pub prologue: Ref,
    pub schedule: SortSchedule,
    /// True if some output is where elements were.
    pub positions: bool,
}

impl SortKernel {
    pub fn new(form: &SortForm, kernel: &KernelBuilder<'_>) -> Self {
        let SortForm { outer, len, count, dtype, prologue, descending, schedule } = form;
        let rows = CollapsedRows::one_by_one(kernel, (outer, *len, *prologue));
        let positions = kernel.step.outputs.iter().any(|output| output.root != *prologue);
        let (count, dtype, prologue) = (*count, *dtype, *prologue);
        let (descending, schedule) = (*descending, *schedule);
        Self { rows, count, descending, dtype, prologue, schedule, positions }
    }

    /// The function `fetch`, which gives the key of element `j` of a row. Equal keys are of equal elements, and keys
    /// are in the order that is asked for.
    pub fn fetch(&self, kernel: &mut KernelBuilder<'_>) -> String {
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
    pub fn write(&self, kernel: &mut KernelBuilder<'_>) -> String {
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
    pub fn each_group(&self, kernel: &mut KernelBuilder<'_>, groups: usize) -> String {
        let groups = kernel.size(groups);
        format!("let id = {WORKGROUP};\nif id >= {groups} {{\n    return;\n}}\n")
    }
}

/// The arrays `keys` and `positions` of `total` elements, and the function `sort`, which sorts each `span` of them.
pub(super) fn bitonic(span: usize, total: usize) -> String {
    fill(shader!("sort/bitonic.wgsl"), &holes! { span, total })
}
