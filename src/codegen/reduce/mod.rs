//! Reductions: one dispatch, or two where rows are cut into parts.

mod loops;
mod windows;

use self::loops::ReduceUnit;
use self::windows::WindowKernel;
use super::Dispatch;
use super::combine::CombineState;
use super::kernel::{Kernel, KernelFunction};
use crate::base::dtype::Ty;
use crate::expr::Ref;
use crate::plan::{ReduceAxes, ReduceForm, ReduceLayout, ReduceSchedule, Step, Windows};

/// Results from which on a thread each combines the parts.
const MANY_RESULTS: usize = 4096;

/// Parts up to which one thread combines them.
const FEW_PARTS: usize = 8;

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
    state: CombineState,
    /// The type of the combined value.
    result: Ty,
    axes: ReduceAxes,
}

/// The texts that make a kernel of a template.
struct Texts {
    functions: String,
    /// The body of `element`, which returns a state, a value, or four values.
    element: String,
    unit: ReduceUnit,
    /// Statements that find where the result's elements begin in every operand.
    bases: String,
    /// The names of those that `element` is given.
    base_names: Vec<String>,
    /// The body of `write`.
    write: String,
}

impl Reduction {
    fn new(form: &ReduceForm, kernel: &Kernel<'_>) -> Self {
        let step: &Step = kernel.step;
        let ReduceForm { combine, outer, inner, prologue, schedule, .. } = form;
        let axes = ReduceAxes::new(outer, inner, *prologue, &step.parts(&kernel.plan.values));
        let ty = step.expr.ty(*prologue);
        Self {
            schedule: *schedule,
            prologue: *prologue,
            state: CombineState::new(*combine, ty),
            result: combine.result(ty),
            axes,
        }
    }

    /// Everything in one dispatch.
    fn whole(&self, mut kernel: Kernel<'_>) -> Dispatch {
        if let Some(lanes) = self.schedule.lanes {
            let windows = Windows::new(&self.axes, lanes);
            return WindowKernel { reduction: self, windows }.dispatch(kernel);
        }
        let results = self.results(&mut kernel);
        let unit = self.unit(&kernel);
        kernel.bind_outputs(|_| false);
        kernel.bind_operands(&self.axes.main, |o| self.is_wide(unit, o));
        kernel.bind_operands(&self.axes.out, |_| false);
        let mut texts = self.read_elements(&mut kernel, unit);
        texts.functions = [texts.functions, results.text.clone()].join("\n");
        texts.write = self.write_results(&mut kernel, &results);
        self.dispatch(kernel, self.schedule, self.axes.inner.len(), &texts, "")
    }

    /// Partial results of all parts, to the scratch memory.
    fn partial(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let unit = self.unit(&kernel);
        let scratch = kernel.bind_scratch(true);
        kernel.bind_operands(&self.axes.main, |o| self.is_wide(unit, o));
        let mut texts = self.read_elements(&mut kernel, unit);
        let words = self.state.pack("state");
        for (word, value) in words.iter().enumerate() {
            let at = format!("id * {}u + {word}u", words.len());
            texts.write += &format!("{scratch}[{at}] = {value};\n");
        }
        self.dispatch(kernel, self.schedule, self.axes.inner.len(), &texts, " (parts)")
    }

    /// The partial results combined.
    fn combine(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let results = self.results(&mut kernel);
        kernel.bind_outputs(|_| false);
        let scratch = kernel.bind_scratch(false);
        kernel.bind_operands(&self.axes.out, |_| false);
        let stride = kernel.size(self.axes.outer.len());
        let count = self.state.pack("").len();
        let words: Vec<String> = (0..count)
            .map(|word| format!("{scratch}[(i * {stride} + result) * {count}u + {word}u]"))
            .collect();
        let texts = Texts {
            functions: results.text.clone(),
            element: format!("return {};", self.state.unpack(&words)),
            unit: ReduceUnit::State,
            bases: String::new(),
            base_names: vec!["result".to_string()],
            write: self.write_results(&mut kernel, &results),
        };
        let parts = self.schedule.parts;
        let by_thread = self.axes.outer.len() >= MANY_RESULTS || parts <= FEW_PARTS;
        let layout = if by_thread { ReduceLayout::Thread } else { ReduceLayout::Group };
        self.dispatch(kernel, ReduceSchedule::new(layout, 1), parts, &texts, " (combine)")
    }

    /// The function that makes the outputs of the combination.
    fn results(&self, kernel: &mut Kernel<'_>) -> KernelFunction {
        kernel.function("compute_results", &kernel.output_roots(), Some(self.result))
    }

    /// Statements that write the outputs from `state`.
    fn write_results(&self, kernel: &mut Kernel<'_>, results: &KernelFunction) -> String {
        let (text, outer) = kernel.coordinates("o", "result", &self.axes.outer.dims);
        let (compute, store) = self.finish(kernel, results, &outer, "state", "");
        text + &compute + &store
    }

    /// Statements that compute the outputs at the coordinates `outer` from `state`, in names that end in `suffix`, and
    /// those that store them.
    fn finish(
        &self,
        kernel: &mut Kernel<'_>,
        results: &KernelFunction,
        outer: &[String],
        state: &str,
        suffix: &str,
    ) -> (String, String) {
        let step = kernel.step;
        let (mut compute, mut store) = (String::new(), String::new());
        for (position, &operand) in self.axes.out.iter().enumerate() {
            let strides = &self.axes.outer.strides[self.axes.main.len() + position];
            let start = kernel.param(step.operands[operand].view.offset);
            let at = kernel.index(&start, strides, outer);
            compute += &format!("let x{operand}{suffix} = {};\n", kernel.load(operand, &at));
        }
        let acc = self.state.finish(state);
        let call = results.call(&acc, |o| format!("x{o}{suffix}"));
        compute += &format!("let values{suffix} = {call};\n");
        for (output, result) in results.results.iter().enumerate() {
            let strides =
                &self.axes.outer.strides[self.axes.main.len() + self.axes.out.len() + output];
            let start = kernel.param(step.outputs[output].view.offset);
            let at = kernel.index(&start, strides, outer);
            store.push_str(&kernel.store(output, &at, &format!("values{suffix}{result}")));
        }
        (compute, store)
    }
}
