//! Row normalisations: a few passes that each fold the row to one number, then the outputs.

use std::fmt::Write;

use smallvec::SmallVec;

use super::Dispatch;
use super::collapse::Axes;
use super::kernel::Kernel;
use super::template::fill;
use crate::dtype::Ty;
use crate::expr::Ref;
use crate::ops::RowKind;
use crate::plan::Form;

/// Rows up to this length are a thread's work.
const SHORT: usize = 32;

/// Rows up to this length stay in registers: sixteen elements a thread.
const LONG: usize = 4096;

/// Rows from which on those that lie across memory are a thread's work each.
const MANY_ROWS: usize = 4096;

const MOST_THREADS: usize = 256;
const LEAST_THREADS: usize = 64;
const ROW_THREADS: usize = 64;

/// Lowers the row form of `kernel`'s step.
pub(super) fn lower(kernel: Kernel<'_>) -> Vec<Dispatch> {
    let step = kernel.step;
    let Form::Row { kind, outer, len, prologue, epsilon } = &step.form else { return Vec::new() };
    let roots: Vec<Ref> = std::iter::once(*prologue).chain(kernel.output_roots()).collect();
    let operands = kernel.operands_of(&roots);
    let maps = step.outputs.iter().map(|o| &o.view);
    let maps: Vec<_> = maps.chain(operands.iter().map(|&o| &step.operands[o].view)).collect();
    let strides: Vec<&[i64]> = maps.iter().map(|view| &view.strides[..outer.len()]).collect();
    let row = Row {
        kind: *kind,
        rows: Axes::collapse(outer, &strides),
        len: *len,
        prologue: *prologue,
        epsilon: *epsilon,
        lane_strides: maps.iter().map(|view| view.strides[outer.len()]).collect(),
        offsets: maps.iter().map(|view| view.offset).collect(),
        operands,
    };
    vec![row.dispatch(kernel)]
}

/// A row form with its rows' dimensions collapsed. Maps are those of the outputs, then those of the
/// operands.
struct Row {
    kind: RowKind,
    rows: Axes,
    len: usize,
    prologue: Ref,
    epsilon: Option<u16>,
    lane_strides: SmallVec<[i64; 4]>,
    offsets: SmallVec<[i64; 4]>,
    operands: Vec<usize>,
}

/// How the row is walked.
#[derive(Clone, Copy, PartialEq)]
enum Walk {
    /// A workgroup a row, `per_thread` elements in registers.
    Held { threads: usize, per_thread: usize },
    /// A workgroup a row, evaluated anew in each pass.
    Long,
    /// A thread a row.
    Thread,
}

/// One number of a row: a fold over its elements, then a formula of the fold.
struct Pass {
    /// The name of the number.
    name: &'static str,
    fold: Fold,
    /// What is folded for the element `x`.
    term: fn(x: &str) -> String,
    /// The number, from the variable `fold`.
    value: String,
}

#[derive(Clone, Copy)]
enum Fold {
    Max,
    Sum,
}

/// The passes of a kind and the normalised element `x`.
fn passes(kind: RowKind, len: &str, epsilon: &str) -> (Vec<Pass>, fn(&str) -> String) {
    let greatest = || Pass {
        name: "greatest",
        fold: Fold::Max,
        term: str::to_string,
        value: "fold".to_string(),
    };
    let total = |value: &str| Pass {
        name: "total",
        fold: Fold::Sum,
        term: |x| format!("p_exp({x} - greatest)"),
        value: value.to_string(),
    };
    let inverse = format!("p_rsqrt(fold / {len} + {epsilon})");
    match kind {
        RowKind::Softmax => {
            (vec![greatest(), total("fold")], |x| format!("p_exp({x} - greatest) / total"))
        }
        RowKind::LogSoftmax => {
            (vec![greatest(), total("p_log(fold)")], |x| format!("{x} - greatest - total"))
        }
        RowKind::LayerNorm => {
            let mean = Pass {
                name: "mean",
                fold: Fold::Sum,
                term: str::to_string,
                value: format!("fold / {len}"),
            };
            let scale = Pass {
                name: "scale",
                fold: Fold::Sum,
                term: |x| format!("({x} - mean) * ({x} - mean)"),
                value: inverse,
            };
            (vec![mean, scale], |x| format!("({x} - mean) * scale"))
        }
        RowKind::RmsNorm => {
            let scale = Pass {
                name: "scale",
                fold: Fold::Sum,
                term: |x| format!("{x} * {x}"),
                value: inverse,
            };
            (vec![scale], |x| format!("{x} * scale"))
        }
    }
}

/// The helpers that the texts of [`passes`] call.
fn helpers(kind: RowKind) -> &'static [&'static str] {
    match kind {
        RowKind::Softmax => &["p_max", "p_inf", "p_exp"],
        RowKind::LogSoftmax => &["p_max", "p_inf", "p_exp", "p_log"],
        RowKind::LayerNorm | RowKind::RmsNorm => &["p_rsqrt"],
    }
}

impl Row {
    fn walk(&self) -> Walk {
        // Operands mostly lie as the results do.
        let lies_across = self.lane_strides[0].abs() > 1;
        if self.len <= SHORT || (lies_across && self.rows.len() >= MANY_ROWS) {
            return Walk::Thread;
        }
        if self.len > LONG {
            return Walk::Long;
        }
        let threads = self.len.div_ceil(4).next_power_of_two().clamp(LEAST_THREADS, MOST_THREADS);
        let per_thread = self.len.div_ceil(threads).next_power_of_two();
        Walk::Held { threads, per_thread }
    }

    fn dispatch(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let walk = self.walk();
        kernel.bind_outputs(|_| false);
        kernel.bind_operands(&self.operands, |_| false);
        helpers(self.kind).iter().for_each(|helper| kernel.needs(helper));
        let offsets = self.offsets.iter().copied();
        let (bases, names) = kernel.bases("o", "row", &self.rows, offsets);
        let parameters: String = names.iter().map(|name| format!(", {name}: u32")).collect();
        let arguments: String = names.iter().map(|name| format!(", {name}")).collect();
        let (functions, element, write) = self.bodies(&mut kernel, &names);
        let texts = self.walk_texts(&mut kernel, walk, &arguments);
        let rows = self.rows.len();
        let threads = match walk {
            Walk::Held { threads, .. } => threads,
            Walk::Long | Walk::Thread => MOST_THREADS,
        }
        .to_string();
        let all_max = match self.kind {
            RowKind::Softmax | RowKind::LogSoftmax => {
                fill(include_str!("../../shaders/row_max.wgsl"), &[("threads", &threads)])
            }
            RowKind::LayerNorm | RowKind::RmsNorm => String::new(),
        };
        let holes = [
            ("threads", threads),
            ("all_max", all_max),
            ("functions", functions),
            ("element", element),
            ("write", write),
            ("base_parameters", parameters),
            ("bases", bases),
            ("rows", kernel.size(rows)),
            ("load", texts.load),
            ("passes", texts.passes),
            ("outputs", texts.outputs),
        ];
        let holes: Vec<(&str, &str)> = holes.iter().map(|(n, text)| (*n, text.as_str())).collect();
        let (template, groups) = match walk {
            Walk::Thread => {
                (include_str!("../../shaders/row_thread.wgsl"), rows.div_ceil(ROW_THREADS))
            }
            Walk::Held { .. } | Walk::Long => (include_str!("../../shaders/row_group.wgsl"), rows),
        };
        kernel.dispatch(template, &holes, "", groups)
    }

    /// The generated functions, and the bodies of `element` and `write`.
    fn bodies(&self, kernel: &mut Kernel<'_>, bases: &[String]) -> (String, String, String) {
        let prologue = kernel.function("prologue", &[self.prologue], None);
        let results = kernel.function("compute_results", &kernel.output_roots(), Some(Ty::F32));
        let outputs = bases.len() - self.operands.len();
        let j = ["j".to_string()];
        let at = |kernel: &mut Kernel<'_>, map: usize| {
            kernel.index(&bases[map], &self.lane_strides[map..=map], &j)
        };
        let loads = |kernel: &mut Kernel<'_>, wanted: &[usize]| {
            let mut text = String::new();
            for (position, &operand) in self.operands.iter().enumerate() {
                if wanted.contains(&operand) {
                    let at = at(kernel, outputs + position);
                    let _ = writeln!(text, "let x{operand} = {};", kernel.load(operand, &at));
                }
            }
            text
        };
        let mut element = loads(kernel, &prologue.operands);
        let _ = writeln!(element, "return {};", prologue.call("", |o| format!("x{o}")));
        let mut write = loads(kernel, &results.operands);
        let _ = writeln!(write, "let values = {};", results.call("acc", |o| format!("x{o}")));
        for (output, result) in results.results.iter().enumerate() {
            let at = at(kernel, output);
            write.push_str(&kernel.store(output, &at, &format!("values{result}")));
        }
        ([prologue.text, results.text].join("\n"), element, write)
    }

    fn walk_texts(&self, kernel: &mut Kernel<'_>, walk: Walk, arguments: &str) -> WalkTexts {
        let len = kernel.size(self.len);
        let float_len = kernel.float(self.len as f32);
        let epsilon = self.epsilon.map_or_else(String::new, |e| kernel.scalar(e));
        let (passes, result) = passes(self.kind, &float_len, &epsilon);
        let mut texts = WalkTexts::default();
        if let Walk::Held { threads, per_thread } = walk {
            for k in 0..per_thread {
                let _ = write!(
                    texts.load,
                    "let j{k} = thread + {}u;\nvar v{k} = 0f;\n\
                     if j{k} < {len} {{\n    v{k} = element(j{k}{arguments});\n}}\n",
                    k * threads
                );
            }
        }
        let over = Elements { walk, len: &len, arguments };
        for pass in &passes {
            texts.passes.push_str(&over.fold(pass));
        }
        texts.outputs = over.each(|j, x| format!("write({j}, {}{arguments});\n", result(x)));
        texts
    }
}

#[derive(Default)]
struct WalkTexts {
    load: String,
    passes: String,
    outputs: String,
}

/// The elements of the row that a thread has to do with.
struct Elements<'a> {
    walk: Walk,
    len: &'a str,
    arguments: &'a str,
}

impl Elements<'_> {
    /// Statements that do `body`, given texts of the position and the element, for each.
    fn each(&self, body: impl Fn(&str, &str) -> String) -> String {
        let Self { len, arguments, .. } = self;
        let (start, step) = match self.walk {
            Walk::Held { per_thread, .. } => {
                let guarded = |k| {
                    let body = body(&format!("j{k}"), &format!("v{k}"));
                    format!("if j{k} < {len} {{\n    {body}}}\n")
                };
                return (0..per_thread).map(guarded).collect();
            }
            Walk::Long => ("thread", MOST_THREADS),
            Walk::Thread => ("0u", 1),
        };
        format!(
            "for (var j = {start}; j < {len}; j += {step}u) {{\n    \
             let x = element(j{arguments});\n    {}}}\n",
            body("j", "x")
        )
    }

    fn fold(&self, pass: &Pass) -> String {
        let Pass { name, fold, term, value } = pass;
        let (identity, all) = match fold {
            Fold::Max => ("-p_inf()", "all_max"),
            Fold::Sum => ("0f", "all_sum"),
        };
        let variable = format!("{name}_fold");
        let each = self.each(|_, x| match fold {
            Fold::Max => format!("{variable} = p_max({variable}, {});\n", term(x)),
            Fold::Sum => format!("{variable} += {};\n", term(x)),
        });
        let folded = match self.walk {
            Walk::Thread => variable.clone(),
            Walk::Held { .. } | Walk::Long => format!("{all}(thread, {variable})"),
        };
        let value = value.replace("fold", &folded);
        format!("var {variable} = {identity};\n{each}let {name} = {value};\n")
    }
}
