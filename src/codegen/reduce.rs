//! Reductions: one dispatch, or two where rows are cut into parts.

use std::fmt::Write;

use super::Dispatch;
use super::collapse::Axes;
use super::combine::State;
use super::kernel::{Function, Kernel};
use crate::dtype::Ty;
use crate::expr::Ref;
use crate::plan::{Form, ReduceLayout, ReduceSchedule, Step};

/// Threads of a workgroup in the layout with a thread a result.
const COLUMN_THREADS: usize = 64;

/// Results from which on a thread each combines the parts.
const MANY_RESULTS: usize = 4096;

/// Parts up to which one thread combines them.
const FEW_PARTS: usize = 8;

/// Lowers a reduction; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
    let first = kernel();
    let Some(reduction) = Reduction::new(&first) else { return Vec::new() };
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
    /// The body of `element`.
    element: String,
    /// Statements that find where the result's elements begin in every operand.
    bases: String,
    /// What `element` is given of them.
    base_names: Vec<String>,
    /// The body of `write`.
    write: String,
}

impl Reduction {
    fn new(kernel: &Kernel<'_>) -> Option<Self> {
        let step: &Step = kernel.step;
        let Form::Reduce { combine, outer, inner, prologue, schedule } = &step.form else {
            return None;
        };
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
        Some(Self {
            schedule: *schedule,
            prologue: *prologue,
            state: State::new(*combine, ty),
            result: combine.result(ty),
            inner,
            outer,
            main,
            out,
        })
    }

    /// Everything in one dispatch.
    fn whole(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let results = self.results(&mut kernel);
        kernel.bind_outputs(|_| false);
        kernel.bind_operands(&self.main, |_| false);
        kernel.bind_operands(&self.out, |_| false);
        let mut texts = self.read_elements(&mut kernel);
        texts.functions = [texts.functions, results.text.clone()].join("\n");
        texts.write = self.write_results(&mut kernel, &results);
        self.dispatch(kernel, self.schedule, self.inner.len(), &texts, "")
    }

    /// Partial results of all parts, to the scratch memory.
    fn partial(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let scratch = kernel.bind_scratch(true);
        kernel.bind_operands(&self.main, |_| false);
        let mut texts = self.read_elements(&mut kernel);
        let words = self.state.pack("state");
        for (word, value) in words.iter().enumerate() {
            let at = format!("id * {}u + {word}u", words.len());
            let _ = writeln!(texts.write, "{scratch}[{at}] = {value};");
        }
        self.dispatch(kernel, self.schedule, self.inner.len(), &texts, " (parts)")
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

    /// The texts that read one element: its place along the outer axes is found once, in `main`.
    fn read_elements(&self, kernel: &mut Kernel<'_>) -> Texts {
        let step = kernel.step;
        let prologue = kernel.function("prologue", &[self.prologue], None);
        let (mut bases, outer) = kernel.coordinates("o", "result", &self.outer.dims);
        let (mut element, inner) = kernel.coordinates("c", "i", &self.inner.dims);
        let mut base_names = Vec::new();
        for (map, &operand) in self.main.iter().enumerate() {
            let start = kernel.param(step.operands[operand].view.offset);
            let base = kernel.index(&start, &self.outer.strides[map], &outer);
            let name = format!("base{operand}");
            let _ = writeln!(bases, "let {name} = {base};");
            let at = kernel.index(&name, &self.inner.strides[map], &inner);
            let _ = writeln!(element, "let x{operand} = {};", kernel.load(operand, &at));
            base_names.push(name);
        }
        let value = prologue.call("", |o| format!("x{o}"));
        let _ = writeln!(element, "return {};", self.state.lift(&value, "i"));
        Texts { functions: prologue.text, element, bases, base_names, write: String::new() }
    }

    /// Statements that write the outputs from `state`.
    fn write_results(&self, kernel: &mut Kernel<'_>, results: &Function) -> String {
        let step = kernel.step;
        let (mut text, outer) = kernel.coordinates("o", "result", &self.outer.dims);
        for (position, &operand) in self.out.iter().enumerate() {
            let strides = &self.outer.strides[self.main.len() + position];
            let start = kernel.param(step.operands[operand].view.offset);
            let at = kernel.index(&start, strides, &outer);
            let _ = writeln!(text, "let x{operand} = {};", kernel.load(operand, &at));
        }
        let acc = self.state.finish("state");
        let _ = writeln!(text, "let values = {};", results.call(&acc, |o| format!("x{o}")));
        for (output, result) in results.results.iter().enumerate() {
            let strides = &self.outer.strides[self.main.len() + self.out.len() + output];
            let start = kernel.param(step.outputs[output].view.offset);
            let at = kernel.index(&start, strides, &outer);
            text.push_str(&kernel.store(output, &at, &format!("values{result}")));
        }
        text
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
        let results = self.outer.len();
        let ids = results.saturating_mul(schedule.parts);
        let names = texts.base_names.iter();
        let parameters: String = names.clone().map(|name| format!(", {name}: u32")).collect();
        let arguments: String = names.map(|name| format!(", {name}")).collect();
        let holes = [
            ("state", self.state.text.as_str()),
            ("functions", &texts.functions),
            ("element", &texts.element),
            ("write", &texts.write),
            ("bases", &texts.bases),
            ("base_parameters", &parameters),
            ("base_arguments", &arguments),
            ("ids", &kernel.size(ids)),
            ("results", &kernel.size(results)),
            ("chunk", &kernel.size(length.div_ceil(schedule.parts))),
            ("length", &kernel.size(length)),
        ];
        let (template, groups) = match schedule.layout {
            ReduceLayout::Group => (include_str!("../../shaders/reduce_group.wgsl"), ids),
            ReduceLayout::Thread => {
                let groups = ids.div_ceil(COLUMN_THREADS);
                (include_str!("../../shaders/reduce_thread.wgsl"), groups)
            }
        };
        kernel.dispatch(template, &holes, phase, groups)
    }
}
