//! A reduction with its dimensions collapsed, and the statements that write its results.

use crate::base::dtype::Ty;
use crate::codegen::combine::CombineState;
use crate::codegen::kernel::{KernelBuilder, KernelFunction};
use crate::expr::Ref;
use crate::plan::{ReduceAxes, ReduceForm, ReduceLayout, ReduceSchedule, Step};

/// A reduction with its dimensions collapsed.
pub(super) struct CollapsedReduction {
    pub schedule: ReduceSchedule,
    pub prologue: Ref,
    pub state: CombineState,
    /// The type of the combined value.
    pub result: Ty,
    pub axes: ReduceAxes,
}

impl CollapsedReduction {
    pub fn new(form: &ReduceForm, kernel: &KernelBuilder<'_>) -> Self {
        let step: &Step = kernel.step;
        let ReduceForm { combine, outer, inner, prologue, schedule, .. } = form;
        let axes = ReduceAxes::new(outer, inner, *prologue, &step.context(&kernel.plan.values));
        let ty = step.expr.ty(*prologue);
        Self {
            schedule: schedule.unwrap_or(ReduceSchedule::new(ReduceLayout::Group, 1)),
            prologue: *prologue,
            state: CombineState::new(*combine, ty),
            result: combine.result(ty),
            axes,
        }
    }

    /// The function that makes the outputs of the combination.
    pub fn results(&self, kernel: &mut KernelBuilder<'_>) -> KernelFunction {
        kernel.function("compute_results", &kernel.output_roots(), Some(self.result))
    }

    /// Statements that write the outputs from `state`.
    pub fn write_results(
        &self,
        kernel: &mut KernelBuilder<'_>,
        results: &KernelFunction,
    ) -> String {
        let (text, outer) = kernel.coordinates("o", "result", &self.axes.outer.dims);
        let (compute, store) = self.finish(kernel, results, &outer, "state", "");
        text + &compute + &store
    }

    /// Statements that compute the outputs at the coordinates `outer` from `state`, in names that end in `suffix`, and
    /// those that store them.
    pub fn finish(
        &self,
        kernel: &mut KernelBuilder<'_>,
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
