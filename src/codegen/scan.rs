//! Scans: one dispatch, or two where rows are cut into parts.

use super::Dispatch;
use super::combine::CombineState;
use super::kernel::template::{holes, shader};
use super::kernel::{KernelBuilder, THREADS, passed};
use super::rows::{CollapsedRows, DispatchRole};
use crate::base::dtype::Ty;
use crate::codegen::group_fold::GroupFold;
use crate::expr::wgsl::type_name;
use crate::plan::ScanForm;

/// Elements that a thread takes at a time.
const FOUR: usize = 4;

/// Lowers a scan; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(form: &ScanForm, kernel: &dyn Fn() -> KernelBuilder<'a>) -> Vec<Dispatch> {
    let scan = ScanKernel::new(form, &kernel());
    DispatchRole::of(scan.parts).iter().map(|&role| scan.dispatch(kernel(), role)).collect()
}

struct ScanKernel {
    rows: CollapsedRows,
    parts: usize,
    state: CombineState,
    /// The expression that is combined.
    ty: Ty,
    /// Threads of a row, a power of two.
    width: usize,
}

impl ScanKernel {
    fn new(form: &ScanForm, kernel: &KernelBuilder<'_>) -> Self {
        let ScanForm { combine, outer, len, prologue, parts } = form;
        let rows = CollapsedRows::new(kernel, (outer, *len, *prologue));
        let width = if rows.is_across() {
            rows.width_across()
        } else {
            len.div_ceil(FOUR).next_power_of_two().min(THREADS)
        };
        let ty = kernel.step.expr.ty(*prologue);
        Self { rows, parts: *parts, state: CombineState::new(*combine, ty), ty, width }
    }

    fn dispatch(&self, mut kernel: KernelBuilder<'_>, role: DispatchRole) -> Dispatch {
        let rows = &self.rows;
        let scratch = rows.bind(&mut kernel, role, true);
        self.state.helpers.iter().for_each(|helper| kernel.needs(helper));
        let (bases, names) = rows.bases(&mut kernel);
        let (parameters, arguments) = passed(&names);
        let (prologue, element) = rows.element(&mut kernel, &names);
        let (results, write) = match role {
            DispatchRole::Partial => Default::default(),
            DispatchRole::Whole | DispatchRole::Combine => rows.write(&mut kernel, &names, self.ty),
        };
        let fours = rows.len.div_ceil(FOUR);
        let chunk = fours.div_ceil(self.parts).next_multiple_of(self.width);
        let parts = kernel.size(self.parts);
        // The parts that were read last come first: caches may still hold them.
        let part = match role {
            DispatchRole::Combine => format!("{parts} - 1u - id % {parts}"),
            DispatchRole::Whole | DispatchRole::Partial => format!("id % {parts}"),
        };
        let (group_fold, mut holes) = rows.threads(self.width, kernel.limits.subgroups);
        let (width, all) = (self.width, group_fold.around_of("carry", "lane"));
        // A dispatch that combines starts with the parts before its own; one of parts leaves the combination of its part.
        let (mut carry, mut finish) = (String::new(), String::new());
        if role == DispatchRole::Combine {
            let other = self.state.unpack(&[format!("{scratch}[row * {parts} + other]")]);
            carry = format!(
                "for (var other = lane; other < part; other += {width}u) {{\n    \
                 carry = merge(carry, {other});\n}}\ncarry = {all}.all;\n"
            );
        } else if role == DispatchRole::Partial {
            let word = self.state.pack("whole").concat();
            finish = format!(
                "let whole = {all}.all;\nif lane == 0u && fours > 0u {{\n    \
                 {scratch}[row * {parts} + part] = {word};\n}}\n"
            );
        }
        holes.extend(holes! {
            state: self.state.text, functions: [prologue, results].join("\n"),
            base_parameters: parameters, base_arguments: arguments,
            element_type: rows.unit_type(self.ty), element, type: type_name(self.ty),
            four: self.four(&mut kernel, &arguments), write, around: group_fold.around(),
            width: self.width, rows: kernel.size(rows.count()), fours: kernel.size(fours),
            chunk: kernel.size(chunk), bases, carry,
            round: self.round(&mut kernel, role, group_fold, &arguments), finish, part, parts,
        });
        let groups = rows.count().div_ceil(THREADS / self.width).saturating_mul(self.parts);
        let label = if role == DispatchRole::Partial { " (parts)" } else { "" };
        kernel.dispatch(shader!("scan.wgsl"), &holes, label, groups)
    }

    /// Statements that return four elements.
    fn four(&self, kernel: &mut KernelBuilder<'_>, arguments: &str) -> String {
        let ty = type_name(self.ty);
        if self.rows.lanes() == FOUR {
            let last = kernel.size(self.rows.len / FOUR - 1);
            return format!(
                "let x = element(min(i, {last}){arguments});\n\
                 return select(vec4<{ty}>(identity()), x, i < end);\n"
            );
        }
        let len = kernel.size(self.rows.len);
        let lane = |k: usize| {
            let at = format!("i * 4u + {k}u");
            format!(
                "let x{k} = select(identity(), element(min({at}, {len} - 1u){arguments}), \
                 i < end && {at} < {len});\n"
            )
        };
        let lanes: String = (0..FOUR).map(lane).collect();
        format!("{lanes}return vec4<{ty}>(x0, x1, x2, x3);\n")
    }

    /// Statements of a round, after the elements of a thread are combined to `d`.
    fn round(
        &self,
        kernel: &mut KernelBuilder<'_>,
        role: DispatchRole,
        group_fold: GroupFold,
        arguments: &str,
    ) -> String {
        if role == DispatchRole::Partial {
            return "carry = merge(carry, d);\n".to_string();
        }
        let around = group_fold.around_of("d", "lane");
        let values = ["x.x", "b", "c", "d"].map(|value| format!("merge(before, {value})"));
        let write = if self.rows.lanes() == FOUR {
            let four = format!("vec4<{}>({})", type_name(self.ty), values.join(", "));
            format!("    write(i, {four}{arguments});\n")
        } else {
            let len = kernel.size(self.rows.len);
            let each = |(k, value): (usize, &String)| {
                let at = format!("i * 4u + {k}u");
                format!(
                    "    if {at} < {len} {{\n        write({at}, {value}{arguments});\n    }}\n"
                )
            };
            values.iter().enumerate().map(each).collect()
        };
        format!(
            "let around = {around};\nlet before = merge(carry, around.before);\n\
             if i < end {{\n{write}}}\ncarry = merge(carry, around.all);\n"
        )
    }
}
