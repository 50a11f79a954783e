//! Reductions: one dispatch, or two where rows are cut into parts.

mod windows;

use std::fmt::Write;

use self::windows::Windows;
use super::Dispatch;
use super::collapse::Axes;
use super::combine::State;
use super::kernel::{Function, Kernel, THREADS};
use super::lanes::{self, Held};
use super::template::indent;
use super::together::Together;
use crate::dtype::Ty;
use crate::expr::Ref;
use crate::expr::wgsl::type_name;
use crate::plan::{ReduceForm, ReduceLayout, ReduceSchedule, Source, Step};

/// Threads of a workgroup in the layout with a thread a result.
const COLUMN_THREADS: usize = 64;

/// Results from which on a thread each combines the parts.
const MANY_RESULTS: usize = 4096;

/// Parts up to which one thread combines them.
const FEW_PARTS: usize = 8;

/// Elements of a window up to which each is written out, with its place as numbers in the text, which a driver folds.
const WRITTEN_OUT: usize = 64;

/// Elements of these that are read before the first is combined.
const AHEAD: usize = 16;

/// Units that a thread takes of a short row, so that several are under way.
const EACH: usize = 4;

/// Lowers a reduction; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(form: &ReduceForm, kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
    let first = kernel();
    let reduction = Reduction::new(form, &first);
    if reduction.schedule.parts > 1 {
        vec![reduction.partial(first), reduction.combine(kernel())]
    } else {
        vec![reduction.whole(first)]
    }
}

/// A reduction with its dimensions collapsed.
struct Reduction {
    schedule: ReduceSchedule,
    prologue: Ref,
    state: State,
    /// The type of what was combined.
    result: Ty,
    inner: Axes,
    outer: Axes,
    /// Operands of the prologue: the maps of `inner`, and the first maps of `outer`.
    main: Vec<usize>,
    /// Operands of the outputs: the next maps of `outer`. The outputs' own are its last.
    out: Vec<usize>,
}

/// The texts that make a kernel of a template.
struct Texts {
    functions: String,
    /// The body of `element`, and what it returns: a state, a value, or four values.
    element: String,
    unit: Unit,
    /// Statements that find where the result's elements begin in every operand.
    bases: String,
    /// What `element` is given of them.
    base_names: Vec<String>,
    /// The body of `write`.
    write: String,
}

/// What a thread takes at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    State,
    Value,
    Quad,
}

impl Unit {
    fn lanes(self) -> usize {
        if self == Self::Quad { 4 } else { 1 }
    }

    /// Statements that take `count` units, `step` apart, from `i` on: first all are read, then each goes
    /// into one of the states `a` to `d`.
    fn take(self, count: usize, step: &str, arguments: &str) -> String {
        let place = |k: usize| if k == 0 { "i".into() } else { format!("i + {k}u * {step}") };
        let mut text = String::new();
        for k in 0..count {
            let _ = writeln!(text, "let unit{k} = element({}{arguments});", place(k));
        }
        const STATES: [&str; 4] = ["a", "b", "c", "d"];
        for k in 0..count {
            let (state, at) = (STATES[k % 4], place(k));
            let _ = match self {
                Self::State => writeln!(text, "{state} = merge({state}, unit{k});"),
                Self::Value => writeln!(text, "{state} = accept({state}, unit{k}, {at});"),
                Self::Quad => {
                    STATES.iter().zip(lanes::LANES).zip(0..).try_for_each(|((state, lane), j)| {
                        let at = format!("({at}) * 4u + {j}u");
                        writeln!(text, "{state} = accept({state}, unit{k}.{lane}, {at});")
                    })
                }
            };
        }
        text
    }
}

impl Reduction {
    fn new(form: &ReduceForm, kernel: &Kernel<'_>) -> Self {
        let step: &Step = kernel.step;
        let ReduceForm { combine, outer, inner, prologue, schedule } = form;
        let main = kernel.operands_of(&[*prologue]);
        let out = kernel.operands_of(&kernel.output_roots());
        let rank = outer.len();
        let strides = |&o: &usize| &step.operands[o].view.strides[..];
        let main_outer = main.iter().map(|o| &strides(o)[..rank]);
        let outputs = step.outputs.iter().map(|o| &o.view.strides[..]);
        let all: Vec<&[i64]> = main_outer.chain(out.iter().map(strides)).chain(outputs).collect();
        let outer = Axes::collapse(outer, &all);
        let all: Vec<&[i64]> = main.iter().map(|o| &strides(o)[rank..]).collect();
        let inner = Axes::collapse(inner, &all);
        let ty = step.expr.ty(*prologue);
        Self {
            schedule: *schedule,
            prologue: *prologue,
            state: State::new(*combine, ty),
            result: combine.result(ty),
            inner,
            outer,
            main,
            out,
        }
    }

    /// Everything in one dispatch.
    fn whole(&self, mut kernel: Kernel<'_>) -> Dispatch {
        if let Some(windows) = Windows::of(self, &kernel) {
            return windows.dispatch(kernel);
        }
        let results = self.results(&mut kernel);
        let unit = self.unit(&kernel);
        kernel.bind_outputs(|_| false);
        kernel.bind_operands(&self.main, |o| self.is_wide(unit, o));
        kernel.bind_operands(&self.out, |_| false);
        let mut texts = self.read_elements(&mut kernel, unit);
        texts.functions = [texts.functions, results.text.clone()].join("\n");
        texts.write = self.write_results(&mut kernel, &results);
        self.dispatch(kernel, self.schedule, self.inner.len(), &texts, "")
    }

    /// Partial results of all parts, to the scratch memory.
    fn partial(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let unit = self.unit(&kernel);
        let scratch = kernel.bind_scratch(true);
        kernel.bind_operands(&self.main, |o| self.is_wide(unit, o));
        let mut texts = self.read_elements(&mut kernel, unit);
        let words = self.state.pack("state");
        for (word, value) in words.iter().enumerate() {
            let at = format!("id * {}u + {word}u", words.len());
            let _ = writeln!(texts.write, "{scratch}[{at}] = {value};");
        }
        self.dispatch(kernel, self.schedule, self.inner.len(), &texts, " (parts)")
    }

    /// The stride of a map of `inner` from one lane to the next.
    fn lane_stride(&self, map: usize) -> i64 {
        self.inner.strides[map][self.inner.rank() - 1]
    }

    /// Whether an operand of the prologue is read in fours.
    fn is_wide(&self, unit: Unit, operand: usize) -> bool {
        let map = self.main.iter().position(|&o| o == operand);
        unit == Unit::Quad && map.is_some_and(|map| self.lane_stride(map) != 0)
    }

    /// Quads where neighbouring threads walk along a row, and all that varies there comes in fours.
    fn unit(&self, kernel: &Kernel<'_>) -> Unit {
        let last = self.inner.rank() - 1;
        let in_fours = |operand: usize| {
            let Some(map) = self.main.iter().position(|&o| o == operand) else { return false };
            let view = &kernel.step.operands[operand].view;
            lanes::is_wide(view, self.lane_stride(map), &self.inner.strides[map][..last])
                && (self.outer.len() == 1 || self.outer.strides[map].iter().all(|s| s % 4 == 0))
        };
        let operands: Vec<usize> = self.main.iter().chain(&self.out).copied().collect();
        let fits = |(map, &operand): (usize, &usize)| {
            let is_value = matches!(kernel.step.operands[operand].source, Source::Value(_));
            self.lane_stride(map) == 0
                || !is_value
                || lanes::binds_wide(kernel, &operands, operand, in_fours)
        };
        let quads = self.schedule.layout == ReduceLayout::Group
            && self.inner.dims[last].is_multiple_of(4)
            && self.main.iter().enumerate().all(fits);
        if quads { Unit::Quad } else { Unit::Value }
    }

    /// The partial results combined.
    fn combine(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let results = self.results(&mut kernel);
        kernel.bind_outputs(|_| false);
        let scratch = kernel.bind_scratch(false);
        kernel.bind_operands(&self.out, |_| false);
        let stride = kernel.size(self.outer.len());
        let count = self.state.pack("").len();
        let words: Vec<String> = (0..count)
            .map(|word| format!("{scratch}[(i * {stride} + result) * {count}u + {word}u]"))
            .collect();
        let texts = Texts {
            functions: results.text.clone(),
            element: format!("return {};", self.state.unpack(&words)),
            unit: Unit::State,
            bases: String::new(),
            base_names: vec!["result".to_string()],
            write: self.write_results(&mut kernel, &results),
        };
        let parts = self.schedule.parts;
        let by_thread = self.outer.len() >= MANY_RESULTS || parts <= FEW_PARTS;
        let layout = if by_thread { ReduceLayout::Thread } else { ReduceLayout::Group };
        self.dispatch(kernel, ReduceSchedule { layout, parts: 1 }, parts, &texts, " (combine)")
    }

    /// The function that makes the outputs of the combination.
    fn results(&self, kernel: &mut Kernel<'_>) -> Function {
        kernel.function("compute_results", &kernel.output_roots(), Some(self.result))
    }

    /// The texts that read one unit: its place along the outer axes is found once, in `main`.
    fn read_elements(&self, kernel: &mut Kernel<'_>, unit: Unit) -> Texts {
        let step = kernel.step;
        let prologue = kernel.function("prologue", &[self.prologue], None);
        let (mut bases, outer) = kernel.coordinates("o", "result", &self.outer.dims);
        let (mut element, inner) = match unit {
            Unit::Quad => {
                let (text, inner) = kernel.coordinates("c", "first", &self.inner.dims);
                (format!("let first = i * 4u;\n{text}"), inner)
            }
            _ if self.is_written_out() => written_out("c", "i", &self.inner.dims),
            _ => kernel.coordinates("c", "i", &self.inner.dims),
        };
        let mut base_names = Vec::new();
        let mut held = vec![Held::One; step.operands.len()];
        for (map, &operand) in self.main.iter().enumerate() {
            let start = kernel.param(step.operands[operand].view.offset);
            let base = kernel.index(&start, &self.outer.strides[map], &outer);
            let name = format!("base{operand}");
            let _ = writeln!(bases, "let {name} = {base};");
            let at = kernel.index(&name, &self.inner.strides[map], &inner);
            if unit == Unit::Quad {
                let (stride, wide) = (self.lane_stride(map), self.is_wide(unit, operand));
                let (load, what) = lanes::load(kernel, operand, &at, stride, wide);
                element.push_str(&load);
                held[operand] = what;
            } else {
                let _ = writeln!(element, "let x{operand} = {};", kernel.load(operand, &at));
            }
            base_names.push(name);
        }
        let value = if unit == Unit::Quad {
            let calls = lanes::calls(&prologue, "", |o| held[o]).join(", ");
            format!("{}({calls})", self.element_type(kernel, unit))
        } else {
            prologue.call("", |o| format!("x{o}"))
        };
        let _ = writeln!(element, "return {value};");
        let functions = prologue.text;
        Texts { functions, element, unit, bases, base_names, write: String::new() }
    }

    /// Whether a thread takes the few elements of a window, which lie along several axes.
    fn is_written_out(&self) -> bool {
        let ReduceSchedule { layout, parts } = self.schedule;
        let by_one = layout == ReduceLayout::Thread && parts == 1;
        by_one && self.inner.rank() > 1 && (1..=WRITTEN_OUT).contains(&self.inner.len())
    }

    /// Statements in which one thread walks along the `units` of a result, or every so many of them.
    fn walk(&self, unit: Unit, units: usize, arguments: &str) -> String {
        if unit == Unit::Value && self.is_written_out() {
            let take = |first: usize| {
                let taken = unit.take(AHEAD.min(units - first), "1u", arguments);
                format!("{{\nlet i = {first}u;\n{taken}}}\n")
            };
            return (0..units).step_by(AHEAD).map(take).collect();
        }
        let (four, one) = (unit.take(4, "step", arguments), unit.take(1, "step", arguments));
        format!(
            "let rounds = count / 4u;\nvar i = part;\n\
             for (var round = 0u; round < rounds; round++) {{\n{}    i += 4u * step;\n}}\n\
             for (var rest = rounds * 4u; rest < count; rest++) {{\n{}    i += step;\n}}\n",
            indent(&four),
            indent(&one)
        )
    }

    fn element_type(&self, kernel: &Kernel<'_>, unit: Unit) -> String {
        let ty = type_name(kernel.step.expr.ty(self.prologue));
        match unit {
            Unit::State => "State".to_string(),
            Unit::Value => ty.to_string(),
            Unit::Quad => format!("vec4<{ty}>"),
        }
    }

    /// Statements that write the outputs from `state`.
    fn write_results(&self, kernel: &mut Kernel<'_>, results: &Function) -> String {
        let (text, outer) = kernel.coordinates("o", "result", &self.outer.dims);
        let (compute, store) = self.finish(kernel, results, &outer, "state", "");
        text + &compute + &store
    }

    /// Statements that compute the outputs at the coordinates `outer` from `state`, in names that end in `suffix`, and
    /// those that store them.
    fn finish(
        &self,
        kernel: &mut Kernel<'_>,
        results: &Function,
        outer: &[String],
        state: &str,
        suffix: &str,
    ) -> (String, String) {
        let step = kernel.step;
        let (mut compute, mut store) = (String::new(), String::new());
        for (position, &operand) in self.out.iter().enumerate() {
            let strides = &self.outer.strides[self.main.len() + position];
            let start = kernel.param(step.operands[operand].view.offset);
            let at = kernel.index(&start, strides, outer);
            let _ = writeln!(compute, "let x{operand}{suffix} = {};", kernel.load(operand, &at));
        }
        let acc = self.state.finish(state);
        let call = results.call(&acc, |o| format!("x{o}{suffix}"));
        let _ = writeln!(compute, "let values{suffix} = {call};");
        for (output, result) in results.results.iter().enumerate() {
            let strides = &self.outer.strides[self.main.len() + self.out.len() + output];
            let start = kernel.param(step.outputs[output].view.offset);
            let at = kernel.index(&start, strides, outer);
            store.push_str(&kernel.store(output, &at, &format!("values{suffix}{result}")));
        }
        (compute, store)
    }

    fn dispatch(
        &self,
        mut kernel: Kernel<'_>,
        schedule: ReduceSchedule,
        length: usize,
        texts: &Texts,
        phase: &str,
    ) -> Dispatch {
        self.state.helpers.iter().for_each(|helper| kernel.needs(helper));
        let (results, unit) = (self.outer.len(), texts.unit);
        let ids = results.saturating_mul(schedule.parts);
        let units = length / unit.lanes();
        let names = texts.base_names.iter();
        let parameters: String = names.clone().map(|name| format!(", {name}: u32")).collect();
        let arguments: String = names.map(|name| format!(", {name}")).collect();
        let by_thread = schedule.layout == ReduceLayout::Thread;
        let walk = self.walk(unit, units, &arguments);
        let chunk = units.div_ceil(schedule.parts);
        // Few widths, so that few kernels serve many lengths.
        let width = chunk.div_ceil(EACH).next_power_of_two().clamp(1, THREADS);
        let step = if by_thread { "step".to_string() } else { format!("{width}u") };
        let results_of_group = THREADS / width;
        let together = Together { width, stride: 1, subgroups: kernel.limits.subgroups };
        let (builtins, thread) = together.numbering();
        let all = together.function("state", "State", &self.state.shuffled("all"), |a, b| {
            format!("merge({a}, {b})")
        });
        let holes = [
            ("state", self.state.text.clone()),
            ("functions", texts.functions.clone()),
            ("element_type", self.element_type(&kernel, unit)),
            ("element", texts.element.clone()),
            ("write", texts.write.clone()),
            ("all", all),
            ("builtins", builtins.to_string()),
            ("thread", thread.to_string()),
            ("folded", together.call("state", "merge(merge(a, b), merge(c, d))")),
            ("bases", texts.bases.clone()),
            ("base_parameters", parameters),
            ("walk", walk),
            ("four", unit.take(4, &step, &arguments)),
            ("one", unit.take(1, &step, &arguments)),
            ("width", width.to_string()),
            ("round", (4 * width).to_string()),
            ("group_results", results_of_group.to_string()),
            ("ids", kernel.size(ids)),
            ("results", kernel.size(results)),
            ("parts", kernel.size(schedule.parts)),
            ("chunk", kernel.size(chunk)),
            ("length", kernel.size(units)),
        ];
        let (template, groups) = if by_thread {
            (include_str!("../../../shaders/reduce_thread.wgsl"), ids.div_ceil(COLUMN_THREADS))
        } else {
            (include_str!("../../../shaders/reduce_group.wgsl"), ids.div_ceil(results_of_group))
        };
        kernel.dispatch(template, &holes, phase, groups)
    }
}

/// Statements that take the row-major position `position` apart by `dims`, which are in the text, and the names of the
/// coordinates.
fn written_out(prefix: &str, position: &str, dims: &[usize]) -> (String, Vec<String>) {
    let (mut text, mut after) = (String::new(), dims.iter().product::<usize>());
    let names: Vec<String> = (0..dims.len()).map(|axis| format!("{prefix}{axis}")).collect();
    for (name, &dim) in names.iter().zip(dims) {
        after /= dim;
        let _ = writeln!(text, "let {name} = {position} / {after}u % {dim}u;");
    }
    (text, names)
}
