//! Reductions: one dispatch, or two where rows are cut into parts.

mod loops;
mod reduction;
mod windows;

use self::loops::{ReduceUnit, Texts};
use self::reduction::CollapsedReduction;
use self::windows::WindowKernel;
use super::Dispatch;
use super::kernel::KernelBuilder;
use crate::plan::{ReduceForm, ReduceLayout, ReduceSchedule, ThreadWindows};

/// Results from which on a thread each combines the parts.
const MANY_RESULTS: usize = 4096;

/// Parts up to which one thread combines them.
const FEW_PARTS: usize = 8;

/// Lowers a reduction; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(
    form: &ReduceForm,
    kernel: &dyn Fn() -> KernelBuilder<'a>,
) -> Vec<Dispatch> {
    let first = kernel();
    let reduction = CollapsedReduction::new(form, &first);
    if reduction.schedule.parts > 1 {
        vec![reduction.partial(first), reduction.combine(kernel())]
    } else {
        vec![reduction.whole(first)]
    }
}

impl CollapsedReduction {
    /// Everything in one dispatch.
    fn whole(&self, mut kernel: KernelBuilder<'_>) -> Dispatch {
        if let Some(lanes) = self.schedule.lanes {
            let windows = ThreadWindows::new(&self.axes, lanes);
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
    fn partial(&self, mut kernel: KernelBuilder<'_>) -> Dispatch {
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
    fn combine(&self, mut kernel: KernelBuilder<'_>) -> Dispatch {
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
}
