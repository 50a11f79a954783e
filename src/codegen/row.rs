//! Row normalisations: rows in registers where they fit, else statistics of rows and then the outputs.

use std::fmt::Write;

use smallvec::SmallVec;

use super::Dispatch;
use super::collapse::Axes;
use super::kernel::{Kernel, THREADS};
use super::lanes::{self, Held};
use super::norm::{Pass, Statistics, helpers, passes};
use super::template::{fill, indent};
use crate::dtype::Ty;
use crate::expr::Ref;
use crate::ops::RowKind;
use crate::plan::{Form, ROW_HELD};

/// Rows that lie side by side in memory and share a workgroup, at most.
const SIDE_BY_SIDE: usize = 32;

/// Lowers a row form; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
    let first = kernel();
    let Some(row) = Row::new(&first) else { return Vec::new() };
    if row.parts > 1 {
        vec![row.dispatch(first, Phase::Gather), row.dispatch(kernel(), Phase::Apply)]
    } else {
        vec![row.dispatch(first, Phase::Whole)]
    }
}

/// A row form with its rows' dimensions collapsed. Maps are those of the outputs, then those of the
/// operands.
struct Row {
    kind: RowKind,
    rows: Axes,
    len: usize,
    parts: usize,
    prologue: Ref,
    epsilon: Option<u16>,
    lane_strides: SmallVec<[i64; 4]>,
    offsets: SmallVec<[i64; 4]>,
    operands: Vec<usize>,
    outputs: usize,
    share: Share,
}

/// How rows are shared out to the threads of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// Elements of a unit: four that are one vector in memory, or one.
    lanes: usize,
    /// Threads of a row, a power of two.
    width: usize,
    /// Whether neighbouring threads take neighbouring rows, not neighbouring units of one.
    across: bool,
    /// Units that a thread holds in registers; `None` where the row is too long for that.
    held: Option<usize>,
}

/// What a dispatch does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Whole,
    /// Statistics of parts of rows, to the scratch memory.
    Gather,
    /// From these to the outputs.
    Apply,
}

impl Share {
    fn rows(self) -> usize {
        THREADS / self.width
    }

    fn new(lanes: usize, len: usize, rows: usize, across: bool) -> Self {
        let units = len / lanes;
        if across {
            let side_by_side = SIDE_BY_SIDE.max(THREADS / len.div_ceil(4).next_power_of_two());
            let side_by_side = rows.next_power_of_two().min(side_by_side.min(THREADS));
            let width = THREADS / side_by_side;
            let each = units.div_ceil(width);
            return Self { lanes, width, across, held: (each <= 16).then(|| few_sizes(each)) };
        }
        // Measured: up to 1024 elements want more threads, longer rows more loads under way in each.
        let each = if lanes == 4 && len <= 1024 { 4 } else { 8 };
        let width = units.div_ceil(each).next_power_of_two().min(THREADS);
        let held = (len <= ROW_HELD).then(|| few_sizes(units.div_ceil(width)));
        Self { lanes, width, across, held }
    }
}

/// The next number of the form 2ⁿ or 3·2ⁿ, so that few kernels serve many lengths.
fn few_sizes(n: usize) -> usize {
    let power = n.next_power_of_two();
    if power >= 4 && n <= power / 4 * 3 { power / 4 * 3 } else { power }
}

impl Row {
    fn new(kernel: &Kernel<'_>) -> Option<Self> {
        let step = kernel.step;
        let Form::Row { kind, outer, len, prologue, epsilon, parts } = &step.form else {
            return None;
        };
        let roots: Vec<Ref> = std::iter::once(*prologue).chain(kernel.output_roots()).collect();
        let operands = kernel.operands_of(&roots);
        let maps = step.outputs.iter().map(|o| &o.view);
        let maps: Vec<_> = maps.chain(operands.iter().map(|&o| &step.operands[o].view)).collect();
        let strides: Vec<&[i64]> = maps.iter().map(|view| &view.strides[..outer.len()]).collect();
        let rows = Axes::collapse(outer, &strides);
        let mut row = Self {
            kind: *kind,
            len: *len,
            parts: *parts,
            prologue: *prologue,
            epsilon: *epsilon,
            lane_strides: maps.iter().map(|view| view.strides[outer.len()]).collect(),
            offsets: maps.iter().map(|view| view.offset).collect(),
            outputs: step.outputs.len(),
            share: Share { lanes: 1, width: THREADS, across: false, held: None },
            operands,
            rows,
        };
        let across = row.lies_across();
        let lanes = if !across && row.in_fours(kernel) { 4 } else { 1 };
        row.share = Share::new(lanes, row.len, row.rows.len(), across);
        if row.parts > 1 {
            row.share.held = None;
        }
        Some(row)
    }

    /// Whether neighbouring rows of the first output, not neighbouring elements, are close in memory.
    fn lies_across(&self) -> bool {
        let neighbours = self.rows.strides[0][self.rows.rank() - 1].abs();
        self.lane_strides[0].abs() > 1 && neighbours == 1 && self.rows.len() > 1
    }

    /// Whether all that varies along rows can be read and written in fours.
    fn in_fours(&self, kernel: &Kernel<'_>) -> bool {
        let step = kernel.step;
        let wide = |map: usize, view| {
            lanes::is_wide(view, self.lane_strides[map], &self.rows.strides[map])
                || self.rows.len() == 1 && lanes::is_wide(view, self.lane_strides[map], &[])
        };
        let by_itself = |o: usize| {
            let position = self.operands.iter().position(|&p| p == o).unwrap_or_default();
            wide(self.outputs + position, &step.operands[o].view)
        };
        let operand = |(position, &o): (usize, &usize)| {
            let stays = self.lane_strides[self.outputs + position] == 0;
            stays || lanes::binds_wide(kernel, &self.operands, o, by_itself)
        };
        self.len.is_multiple_of(4)
            && step.outputs.iter().enumerate().all(|(map, output)| wide(map, &output.view))
            && self.operands.iter().enumerate().all(operand)
    }

    /// Whether `operand` is read in fours.
    fn is_wide(&self, operand: usize) -> bool {
        let position = self.operands.iter().position(|&o| o == operand).unwrap_or_default();
        self.share.lanes == 4 && self.lane_strides[self.outputs + position] != 0
    }

    fn dispatch(&self, mut kernel: Kernel<'_>, phase: Phase) -> Dispatch {
        let four = self.share.lanes == 4;
        let scratch = self.bind(&mut kernel, phase);
        helpers(self.kind, self.share.held.is_none()).iter().for_each(|h| kernel.needs(h));
        let offsets = self.offsets.iter().copied();
        let (bases, names) = kernel.bases("o", "row", &self.rows, offsets);
        let parameters: String = names.iter().map(|name| format!(", {name}: u32")).collect();
        let arguments: String = names.iter().map(|name| format!(", {name}")).collect();
        let body = Body { row: self, phase, arguments: &arguments, scratch: &scratch };
        let texts = body.texts(&mut kernel, &names);
        let (parts, rows, units) =
            (kernel.size(self.parts), kernel.size(self.rows.len()), self.len / self.share.lanes);
        let holes = [
            ("functions", texts.functions),
            ("element", texts.element),
            ("shared", texts.shared),
            ("base_parameters", parameters),
            ("vector", if four { "vec4<f32>" } else { "f32" }.to_string()),
            ("builtins", texts.builtins),
            ("thread", texts.thread),
            ("slot", texts.slot),
            ("group_rows", self.share.rows().to_string()),
            ("parts", parts),
            ("rows", rows),
            ("units", kernel.size(units)),
            ("bases", bases),
            ("body", texts.body),
        ];
        let holes: Vec<(&str, &str)> = holes.iter().map(|(n, text)| (*n, text.as_str())).collect();
        let groups = self.rows.len().div_ceil(self.share.rows()).saturating_mul(self.parts);
        let label = if phase == Phase::Gather { " (statistics)" } else { "" };
        kernel.dispatch(include_str!("../../shaders/row.wgsl"), &holes, label, groups)
    }

    /// Binds what the phase reads and writes; the name of the scratch memory, if it is bound.
    fn bind(&self, kernel: &mut Kernel<'_>, phase: Phase) -> String {
        let mut scratch = String::new();
        if phase == Phase::Gather {
            scratch = kernel.bind_scratch(true);
            let operands = kernel.operands_of(&[self.prologue]);
            kernel.bind_operands(&operands, |o| self.is_wide(o));
            return scratch;
        }
        kernel.bind_outputs(|_| self.share.lanes == 4);
        if phase == Phase::Apply {
            scratch = kernel.bind_scratch(false);
        }
        kernel.bind_operands(&self.operands, |o| self.is_wide(o));
        scratch
    }

    /// Statements that load what unit `j` needs of the operands in `wanted`, and what is held of each.
    fn loads(
        &self,
        kernel: &mut Kernel<'_>,
        bases: &[String],
        wanted: &[usize],
    ) -> (String, Vec<Held>) {
        let mut text = String::new();
        let mut held = vec![Held::One; kernel.step.operands.len()];
        for (position, &operand) in self.operands.iter().enumerate() {
            if !wanted.contains(&operand) {
                continue;
            }
            let map = self.outputs + position;
            let at = self.at(kernel, bases, map);
            if self.share.lanes == 4 {
                let stride = self.lane_strides[map];
                let (load, what) = lanes::load(kernel, operand, &at, stride, self.is_wide(operand));
                text.push_str(&load);
                held[operand] = what;
            } else {
                let _ = writeln!(text, "let x{operand} = {};", kernel.load(operand, &at));
            }
        }
        (text, held)
    }

    /// The index of the first element of unit `j`.
    fn at(&self, kernel: &mut Kernel<'_>, bases: &[String], map: usize) -> String {
        let j = if self.share.lanes == 4 { "j * 4u" } else { "j" };
        kernel.index(&bases[map], &self.lane_strides[map..=map], &[j.to_string()])
    }
}

/// What makes the text of one dispatch.
struct Body<'a> {
    row: &'a Row,
    phase: Phase,
    /// The bases of the maps, as further arguments of a call.
    arguments: &'a str,
    scratch: &'a str,
}

#[derive(Default)]
struct Texts {
    functions: String,
    element: String,
    shared: String,
    builtins: String,
    thread: String,
    slot: String,
    body: String,
}

impl Body<'_> {
    fn texts(&self, kernel: &mut Kernel<'_>, bases: &[String]) -> Texts {
        let mut texts = self.threads(kernel);
        let row = self.row;
        let prologue = kernel.function("prologue", &[row.prologue], None);
        let (loads, held) = row.loads(kernel, bases, &prologue.operands);
        let value = if row.share.lanes == 4 {
            format!("vec4<f32>({})", lanes::calls(&prologue, "", |o| held[o]).join(", "))
        } else {
            prologue.call("", |o| format!("x{o}"))
        };
        texts.element = format!("{loads}return {value};\n");
        texts.functions = prologue.text;
        if self.phase != Phase::Gather {
            let (functions, write) = self.write(kernel, bases);
            texts.functions = [texts.functions, functions].join("\n");
            texts.shared = write;
        }
        let len = kernel.float(row.len as f32);
        let epsilon = row.epsilon.map_or_else(String::new, |e| kernel.scalar(e));
        let (shared, body) = match row.share.held {
            Some(held) => self.in_registers(kernel, held, &len, &epsilon),
            None => self.streamed(kernel, &len, &epsilon),
        };
        texts.shared = [texts.shared, shared].join("\n");
        texts.body = body;
        texts
    }

    /// Where threads find their rows.
    fn threads(&self, kernel: &Kernel<'_>) -> Texts {
        let Share { width, across, .. } = self.row.share;
        let rows = self.row.share.rows();
        let (slot, lane) = if across {
            (format!("thread % {rows}u"), format!("thread / {rows}u"))
        } else {
            (format!("thread / {width}u"), format!("thread % {width}u"))
        };
        let (builtins, thread) = if self.by_subgroups(kernel) {
            (
                "@builtin(subgroup_id) subgroup: u32,\n@builtin(subgroup_size) size: u32,\n\
                 @builtin(subgroup_invocation_id) invocation: u32,\n",
                "let thread = subgroup * size + invocation;\n",
            )
        } else {
            ("@builtin(local_invocation_index) thread: u32,\n", "")
        };
        Texts {
            builtins: builtins.to_string(),
            thread: format!("{thread}let lane = {lane};\n"),
            slot,
            ..Texts::default()
        }
    }

    fn by_subgroups(&self, kernel: &Kernel<'_>) -> bool {
        let Share { across, held, .. } = self.row.share;
        kernel.limits.subgroups.is_some() && held.is_some() && !across
    }

    /// The function that makes the outputs, and the function `write`.
    fn write(&self, kernel: &mut Kernel<'_>, bases: &[String]) -> (String, String) {
        let row = self.row;
        let function = kernel.function("compute_results", &kernel.output_roots(), Some(Ty::F32));
        let (mut text, held) = row.loads(kernel, bases, &function.operands);
        let four = row.share.lanes == 4;
        if four {
            let calls = lanes::calls(&function, "acc", |o| held[o]);
            for (lane, call) in lanes::LANES.iter().zip(calls) {
                let _ = writeln!(text, "let values_{lane} = {call};");
            }
        } else {
            let _ = writeln!(text, "let values = {};", function.call("acc", |o| format!("x{o}")));
        }
        for (output, result) in function.results.iter().enumerate() {
            let at = row.at(kernel, bases, output);
            text.push_str(&if four {
                let values = lanes::LANES.map(|lane| format!("values_{lane}{result}"));
                lanes::store(kernel, output, &at, 1, true, &values)
            } else {
                kernel.store(output, &at, &format!("values{result}"))
            });
        }
        let parameters: String = bases.iter().map(|name| format!(", {name}: u32")).collect();
        let vector = if four { "vec4<f32>" } else { "f32" };
        let write =
            format!("fn write(j: u32, acc: {vector}{parameters}) {{\n{}}}\n", indent(&text));
        (function.text, write)
    }

    /// The texts of the lanes of a unit.
    fn lanes(&self, x: &str) -> Vec<String> {
        if self.row.share.lanes == 4 {
            lanes::LANES.iter().map(|lane| format!("{x}.{lane}")).collect()
        } else {
            vec![x.to_string()]
        }
    }

    /// A unit of what becomes of each lane.
    fn each(&self, x: &str, text: impl Fn(&str) -> String) -> String {
        let lanes: Vec<String> = self.lanes(x).iter().map(|lane| text(lane)).collect();
        match &lanes[..] {
            [one] => one.clone(),
            lanes => format!("vec4<f32>({})", lanes.join(", ")),
        }
    }

    /// What is shared, and the body, for rows that stay in registers.
    fn in_registers(
        &self,
        kernel: &Kernel<'_>,
        held: usize,
        len: &str,
        epsilon: &str,
    ) -> (String, String) {
        let (passes, result) = passes(self.row.kind, len, epsilon);
        let Share { width, .. } = self.row.share;
        let mut body = "let last = max(units, 1u) - 1u;\n".to_string();
        for k in 0..held {
            let first = k * width;
            let _ = write!(
                body,
                "let j{k} = lane + {first}u;\nvar v{k} = element(min(j{k}, last){});\n",
                self.arguments
            );
        }
        let mut shared = String::new();
        for pass in &passes {
            shared.push_str(&self.all(kernel, pass.name, "f32", |a, b| pass.fold.merge(a, b)));
            body.push_str(&self.pass(kernel, held, pass));
        }
        for k in 0..held {
            let value = self.each(&format!("v{k}"), result);
            let arguments = self.arguments;
            let _ = write!(body, "if j{k} < units {{\n    write(j{k}, {value}{arguments});\n}}\n");
        }
        (shared, body)
    }

    /// Statements that find the number of `pass` from the units in registers.
    fn pass(&self, kernel: &Kernel<'_>, held: usize, pass: &Pass) -> String {
        let Pass { name, fold, before, term, value } = pass;
        let mut text = format!("var {name}_fold = {};\n", fold.identity());
        for k in 0..held {
            let v = format!("v{k}");
            let _ = writeln!(text, "if j{k} < units {{");
            if let Some(before) = before {
                let _ = writeln!(text, "    {v} = {};", self.each(&v, before));
            }
            let terms: Vec<String> = self.lanes(&v).iter().map(|lane| term(lane)).collect();
            let folded = tree(&terms, |a, b| fold.merge(a, b));
            let _ = writeln!(
                text,
                "    {name}_fold = {};\n}}",
                fold.merge(&format!("{name}_fold"), &folded)
            );
        }
        let place = if self.by_subgroups(kernel) { "size" } else { "lane" };
        let all = format!("all_{name}({name}_fold, thread, {place})");
        let _ = writeln!(text, "let {name} = {};", value.replace("fold", &all));
        text
    }

    /// The function `all_` and its name, which folds over the threads of a row.
    fn all(
        &self,
        kernel: &Kernel<'_>,
        name: &str,
        ty: &str,
        merge: impl Fn(&str, &str) -> String,
    ) -> String {
        let Share { width, across, .. } = self.row.share;
        let texts = [
            ("name", name.to_string()),
            ("type", ty.to_string()),
            ("width", width.to_string()),
            ("stride", if across { self.row.share.rows() } else { 1 }.to_string()),
            ("merge", merge("all", "other")),
            ("merge_memory", merge(&format!("{name}_parts[thread]"), "other")),
        ];
        let mut holes: Vec<(&str, &str)> = texts.iter().map(|(n, t)| (*n, t.as_str())).collect();
        let subgroups = kernel.limits.subgroups.filter(|_| self.by_subgroups(kernel));
        let Some(subgroups) = subgroups else {
            return fill(include_str!("../../shaders/all_memory.wgsl"), &holes);
        };
        let (mut array, mut across) = (String::new(), String::new());
        if width > subgroups.least as usize {
            let parts = THREADS / subgroups.least as usize;
            array = format!("var<workgroup> {name}_parts: array<{ty}, {parts}>;\n\n");
            across = fill(include_str!("../../shaders/row_all_across.wgsl"), &holes);
        }
        holes.push(("across", &across));
        array + &fill(include_str!("../../shaders/row_all_subgroup.wgsl"), &holes)
    }

    /// What is shared, and the body, for rows that are read for their statistics and then again.
    fn streamed(&self, kernel: &mut Kernel<'_>, len: &str, epsilon: &str) -> (String, String) {
        let row = self.row;
        let statistics = Statistics::new(row.kind, len, epsilon);
        let memory = Kernel::new(kernel.plan, kernel.step, kernel.limits);
        let all = self.all(&memory, "state", "State", |a, b| format!("merge({a}, {b})"));
        let shared = [statistics.text, &all].join("\n");
        let parts = kernel.size(row.parts);
        let chunk = kernel.size((row.len / row.share.lanes).div_ceil(row.parts));
        let mut body = format!(
            "let part = id % {parts};\nlet start = min(part * {chunk}, units);\n\
             let end = min(start + {chunk}, units);\nvar state = identity();\n"
        );
        let at = |k: usize, parts: &str| format!("(row * {parts} + {}) * {}u", "part", k);
        let words = statistics.pack("state").len();
        if self.phase == Phase::Apply {
            let scratch = self.scratch;
            let word =
                |word: usize| format!("{scratch}[(row * {parts} + other) * {words}u + {word}u]");
            let _ = write!(
                body,
                "for (var other = lane; other < {parts}; other += {}u) {{\n    \
                 state = merge(state, {});\n}}\n",
                row.share.width,
                statistics.unpack(word)
            );
        } else {
            body.push_str(&self.gather());
        }
        body.push_str("state = all_state(state, thread, lane);\n");
        if self.phase == Phase::Gather {
            let mut stores = String::new();
            for (word, value) in statistics.pack("state").iter().enumerate() {
                let _ = writeln!(
                    stores,
                    "{}[{} + {word}u] = {value};",
                    self.scratch,
                    at(words, &parts)
                );
            }
            let _ = write!(body, "if lane == 0u && units > 0u {{\n{}}}\n", indent(&stores));
            return (shared, body);
        }
        body.push_str(&statistics.numbers);
        let value = self.each("x", statistics.result);
        let arguments = self.arguments;
        let _ = write!(
            body,
            "for (var j = start + lane; j < end; j += {}u) {{\n    let x = element(j{arguments});\n    \
             write(j, {value}{arguments});\n}}\n",
            row.share.width
        );
        (shared, body)
    }

    /// Statements that merge the elements of the part into `state`, with four loads under way.
    fn gather(&self) -> String {
        let Share { lanes, width, .. } = self.row.share;
        let arguments = self.arguments;
        let element = |k: usize| match k {
            0 => format!("element(j{arguments})"),
            k => format!("element(j + {}u{arguments})", k * width),
        };
        let (together, one, lift) = if lanes == 4 {
            let pair = format!(
                "let a = {};\n    let b = {};\n    state = merge(merge(state, lift4(a)), lift4(b));",
                element(0),
                element(1)
            );
            (2, pair, "lift4")
        } else {
            let four = |from: usize| (from..from + 4).map(element).collect::<Vec<_>>().join(", ");
            let pair = format!(
                "let a = vec4<f32>({});\n    let b = vec4<f32>({});\n    \
                 state = merge(merge(state, lift4(a)), lift4(b));",
                four(0),
                four(4)
            );
            (8, pair, "lift")
        };
        format!(
            "var j = start + lane;\nfor (; j + {}u < end; j += {}u) {{\n    {one}\n}}\n\
             for (; j < end; j += {width}u) {{\n    state = merge(state, {lift}({}));\n}}\n",
            (together - 1) * width,
            together * width,
            element(0)
        )
    }
}

/// The terms merged in pairs, so that few wait for each other.
fn tree(terms: &[String], merge: impl Fn(&str, &str) -> String + Copy) -> String {
    match terms {
        [] => String::new(),
        [one] => one.clone(),
        terms => {
            let (a, b) = terms.split_at(terms.len() / 2);
            let nested = |text: String, terms: &[String]| {
                if terms.len() > 1 && !text.starts_with("p_") { format!("({text})") } else { text }
            };
            merge(&nested(tree(a, merge), a), &nested(tree(b, merge), b))
        }
    }
}
