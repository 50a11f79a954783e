//! Attention: scores, their exponentials and sums of values in one kernel.
//!
//! [`load`] reads operands, [`body`] writes the statements of the kernel's loop, [`units`] those of the kernel for
//! matrix units, [`strip`] those of the kernel for few queries.

mod body;
mod load;
mod rounds;
mod strip;
mod units;

use self::body::TileKernel;
use self::strip::StripKernel;
use self::units::Squares;
use super::Dispatch;
use super::kernel::{Kernel, OuterMaps, THREADS, passed};
use crate::base::dtype::Ty;
use crate::codegen::kernel::lanes;
use crate::codegen::kernel::results::{Combined, MatrixResults};
use crate::codegen::kernel::template::fill;
use crate::expr::Ref;
use crate::plan::{AttentionForm, AttentionLayout, AttentionSchedule};

/// The start of a running maximum: less than any score but −∞.
const LEAST: &str = "-3.4028234e38f";
/// log₂ e, in a product.
const UNIT: &str = "1.442695f * ";

/// Lowers an attention; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(form: &AttentionForm, kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
    let first = kernel();
    let attention = Attention::new(form, &first);
    if form.schedule.parts == 1 {
        return vec![attention.dispatch(first)];
    }
    vec![attention.dispatch(first), attention.combine(kernel())]
}

/// An attention with its batch dimensions collapsed.
struct Attention<'a> {
    form: &'a AttentionForm,
    results: MatrixResults,
}

impl<'a> Attention<'a> {
    fn new(form: &'a AttentionForm, kernel: &Kernel<'_>) -> Self {
        let maps = OuterMaps::new(kernel, &form.batch, &prologues(form));
        let results = MatrixResults { rows: form.queries, columns: form.out, ty: Ty::F32, maps };
        Self { form, results }
    }

    /// The factor that turns differences of scores into powers of two. Without a mask, the scale has it.
    fn unit(&self) -> &'static str {
        if self.form.mask.is_some() { UNIT } else { "" }
    }

    /// The factor of the scale.
    fn scale_unit(&self) -> &'static str {
        if self.form.mask.is_some() { "" } else { UNIT }
    }

    /// True for each operand of the step whose value is bound in fours.
    fn wide(&self, kernel: &Kernel<'_>) -> Vec<bool> {
        let alone = |o: usize| MatrixResults::is_wide(&kernel.step.operands[o].view);
        let all = &self.results.maps.operands;
        let bound = |o| all.contains(&o) && lanes::binds_wide(kernel, all, o, alone);
        (0..kernel.step.operands.len()).map(bound).collect()
    }

    fn dispatch(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let wide = self.wide(&kernel);
        if self.form.schedule.parts == 1 {
            self.results.bind(&mut kernel, &wide);
        }
        let scratch = (self.form.schedule.parts > 1).then(|| kernel.bind_scratch(true));
        let operands = kernel.operands_of(&prologues(self.form));
        kernel.bind_operands(&operands, |o| wide[o]);
        let (bases, names) = self.results.maps.bases(&mut kernel, "b", "batch");
        let (parameters, arguments) = passed(&names);
        let weights = include_str!("../../../shaders/attention_weights.wgsl");
        let mut functions = fill(weights, &[("unit", self.unit())]) + "\n";
        functions += &self.loads(&mut kernel, &names, &parameters);
        functions += &match scratch {
            None => self.results.store(&mut kernel, &names),
            Some(scratch) => self.store_partial(&mut kernel, &scratch),
        };
        let (locate, groups) = self.locate(&mut kernel);
        let AttentionSchedule { layout, rows, each, keys, columns, .. } = self.form.schedule;
        let mut holes = vec![
            ("functions", functions),
            ("locate", locate),
            ("bases", bases),
            ("rows", rows.to_string()),
            ("each", each.to_string()),
            ("keys", keys.to_string()),
            ("columns", columns.to_string()),
            ("threads", self.form.schedule.threads().to_string()),
        ];
        let arguments = arguments.as_str();
        let template = match layout {
            AttentionLayout::Tiles => {
                holes.extend(TileKernel { attention: self, arguments }.holes(&mut kernel));
                include_str!("../../../shaders/attention.wgsl")
            }
            AttentionLayout::Units(units) => {
                let squares = Squares { attention: self, names: &names, arguments, units };
                holes.extend(squares.holes(&mut kernel));
                kernel.enable("f16");
                kernel.enable("wgpu_cooperative_matrix");
                include_str!("../../../shaders/attention_units.wgsl")
            }
            AttentionLayout::Strips { lanes } => {
                holes.extend(StripKernel { attention: self, arguments, lanes }.holes(&mut kernel));
                include_str!("../../../shaders/attention_strip.wgsl")
            }
        };
        let phase = if self.form.schedule.parts > 1 { " (parts)" } else { "" };
        kernel.dispatch(template, &holes, phase, groups)
    }

    /// Statements that find the workgroup's rows, columns and keys; and the number of workgroups.
    fn locate(&self, kernel: &mut Kernel<'_>) -> (String, usize) {
        let AttentionSchedule { rows, columns, parts, .. } = self.form.schedule;
        let (high, across) = (self.form.queries.div_ceil(rows), self.form.out.div_ceil(columns));
        let count = self.results.maps.axes.len();
        let groups = high * across * count * parts;
        let sizes =
            [groups, high, across, count, self.form.schedule.part(self.form.keys), self.form.keys];
        let [groups_text, high, across, count, part, keys] = sizes.map(|size| kernel.size(size));
        let mut text = format!(
            "if id >= {groups_text} {{\n    return;\n}}\n\
             // Last rows first: where keys are left out by position, they see the most.\n\
             let first_row = ({high} - 1u - id % {high}) * {rows}u;\n\
             let first_column = id / {high} % {across} * {columns}u;\n\
             let batch = id / ({high} * {across}) % {count};\n\
             let part = id / ({high} * {across} * {count});\n\
             let first_key = part * {part};\n\
             let last_key = min(first_key + {part}, {keys});\n"
        );
        text += &match self.form.causal {
            Some(offset) => {
                let offset = kernel.param(offset + rows as i64);
                format!(
                    "let seen = u32(max(i32(first_row + {offset}), 0));\n\
                     let end_key = min(last_key, seen);\n"
                )
            }
            None => "let end_key = last_key;\n".to_string(),
        };
        (text, groups)
    }

    /// The function that leaves partial results in the scratch memory.
    fn store_partial(&self, kernel: &mut Kernel<'_>, scratch: &str) -> String {
        let sizes = [self.form.queries, self.form.out, self.results.maps.axes.len()];
        let [queries, out, count] = sizes.map(|size| kernel.size(size));
        format!(
            "fn place(part: u32, batch: u32, row: u32) -> u32 {{\n    \
             return ((part * {count} + batch) * {queries} + row) * ({out} + 2u);\n}}\n\n\
             fn store_partial(part: u32, batch: u32, row: u32, column: u32, acc: vec4<f32>) {{\n    \
             if row >= {queries} {{ return; }}\n    \
             let at = place(part, batch, row) + column;\n    \
             for (var lane = 0u; lane < 4u; lane++) {{\n        \
             if column + lane < {out} {{ {scratch}[at + lane] = bitcast<u32>(acc[lane]); }}\n    }}\n}}\n\n\
             fn store_sums(part: u32, batch: u32, row: u32, greatest: f32, total: f32) {{\n    \
             if row >= {queries} {{ return; }}\n    \
             let at = place(part, batch, row) + {out};\n    \
             {scratch}[at] = bitcast<u32>(greatest);\n    \
             {scratch}[at + 1u] = bitcast<u32>(total);\n}}\n"
        )
    }

    /// Combines the parts and stores the outputs.
    fn combine(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let Combined { scratch, functions, bases, each } = self.results.combined(&mut kernel);
        let rows = self.results.maps.axes.len() * self.form.queries;
        let results = rows * self.form.out;
        let holes = [
            ("functions", functions),
            ("unit", self.unit().to_string()),
            ("least", LEAST.to_string()),
            ("scratch", scratch),
            ("results", kernel.size(results)),
            ("rows", kernel.size(rows)),
            ("parts", kernel.size(self.form.schedule.parts)),
            ("queries", kernel.size(self.form.queries)),
            ("out", kernel.size(self.form.out)),
            ("bases", bases),
            ("each", each),
        ];
        let template = include_str!("../../../shaders/attention_combine.wgsl");
        kernel.dispatch(template, &holes, " (combine)", results.div_ceil(THREADS))
    }
}

/// The roots of the queries, the keys, the values and, if there is one, the mask.
fn prologues(form: &AttentionForm) -> Vec<Ref> {
    [form.q, form.k, form.v].into_iter().chain(form.mask).collect()
}
