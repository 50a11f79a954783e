//! Outputs over matrices: the function that computes and stores them, for products and attention alike.

use super::builder::KernelBuilder;
use super::function::KernelFunction;
use super::lanes::{self, Loaded};
use super::positions::{OuterMaps, passed};
use super::template::{Holes, holes};
use crate::base::dtype::Ty;
use crate::base::shape::View;
use crate::expr::wgsl::type_name;

/// The outputs of a form over `batch ++ [rows, columns]`.
pub(crate) struct MatrixResults {
    pub rows: usize,
    pub columns: usize,
    /// The type of the values that the form computes.
    pub ty: Ty,
    /// The maps along the batch.
    pub maps: OuterMaps,
}

impl MatrixResults {
    /// Binds the outputs and their operands.
    pub fn bind(&self, kernel: &mut KernelBuilder<'_>, wide: &[bool]) {
        let wide_outputs: Vec<bool> =
            kernel.step.outputs.iter().map(|output| Self::is_wide(&output.view)).collect();
        kernel.bind_outputs(|output| wide_outputs[output]);
        let operands = kernel.operands_of(&kernel.output_roots());
        kernel.bind_operands(&operands, |o| wide[o]);
    }

    /// True for each operand of the step whose value is bound in fours, given which could be by themselves.
    pub fn wide(&self, kernel: &KernelBuilder<'_>, alone: impl Fn(usize) -> bool) -> Vec<bool> {
        let all = &self.maps.operands;
        let bound = |o| all.contains(&o) && lanes::binds_wide(kernel, all, o, &alone);
        (0..kernel.step.operands.len()).map(bound).collect()
    }

    pub fn is_wide(view: &View) -> bool {
        let rank = view.dims.len();
        lanes::is_wide_along(view, rank - 1, rank - 2)
    }

    /// The function that computes and stores the outputs of four neighbours along a row.
    pub fn store(&self, kernel: &mut KernelBuilder<'_>, names: &[String]) -> String {
        let roots = kernel.output_roots();
        let function = kernel.function("compute_results", &roots, Some(self.ty));
        let (m, n) = (kernel.size(self.rows), kernel.size(self.columns));
        let ty = type_name(self.ty);
        let (base_parameters, arguments) = passed(names);
        let guard = format!("    if row >= {m} || column >= {n} {{ return; }}\n");
        if self.columns.is_multiple_of(4) {
            let fours = self.fours(kernel, &function, names);
            return format!(
                "{}\nfn store(row: u32, column: u32, acc: vec4<{ty}>{base_parameters}) {{\n{guard}{fours}}}\n",
                function.text
            );
        }
        let each = self.each(kernel, &function, names);
        let calls: String = (0..4)
            .map(|lane| format!("    store_one(row, column + {lane}u, acc[{lane}]{arguments});\n"))
            .collect();
        format!(
            "{}\nfn store_one(row: u32, column: u32, acc: {ty}{base_parameters}) {{\n{guard}{each}}}\n\n\
             fn store(row: u32, column: u32, acc: vec4<{ty}>{base_parameters}) {{\n{calls}}}\n",
            function.text
        )
    }

    /// Statements that store four neighbours that are all inside.
    fn fours(
        &self,
        kernel: &mut KernelBuilder<'_>,
        function: &KernelFunction,
        names: &[String],
    ) -> String {
        let step = kernel.step;
        let mut loaded = Loaded::default();
        for &operand in &function.operands {
            let view = &step.operands[operand].view;
            let at = index(kernel, self.maps.base(operand, names), view);
            loaded.load(kernel, operand, &at, last_two(view)[1]);
        }
        let mut text = loaded.text.clone();
        for (lane, call) in lanes::LANES.iter().zip(loaded.calls(function, "acc")) {
            text += &format!("let result_{lane} = {call};\n");
        }
        for (output, result) in function.results.iter().enumerate() {
            let view = &step.outputs[output].view;
            let at = index(kernel, &names[output], view);
            let values = lanes::LANES.map(|lane| format!("result_{lane}{result}"));
            if Self::is_wide(view) {
                text += &kernel.store_quad(output, &format!("({at}) / 4u"), &values);
                continue;
            }
            let stride = kernel.param(last_two(view)[1]);
            for (k, value) in values.iter().enumerate() {
                text += &kernel.store(output, &format!("{at} + {k}u * {stride}"), value);
            }
        }
        text
    }

    /// Binds the memory of a dispatch that combines the partial results of parts. The holes are the name of the scratch
    /// memory, functions, statements that find where the batch begins in every map, and those that store one element.
    pub fn combined(&self, kernel: &mut KernelBuilder<'_>) -> Holes {
        kernel.bind_outputs(|_| false);
        let roots = kernel.output_roots();
        let operands = kernel.operands_of(&roots);
        kernel.bind_operands(&operands, |_| false);
        let scratch = kernel.bind_scratch(false);
        let (bases, names) = self.maps.bases(kernel, "b", "batch");
        let function = kernel.function("compute_results", &roots, Some(self.ty));
        let each = self.each(kernel, &function, &names);
        holes! { scratch, functions: function.text, bases, each }
    }

    /// Statements that store one element.
    fn each(
        &self,
        kernel: &mut KernelBuilder<'_>,
        function: &KernelFunction,
        names: &[String],
    ) -> String {
        let step = kernel.step;
        let mut text = String::new();
        for &operand in &function.operands {
            let start = self.maps.base(operand, names);
            let at = index(kernel, start, &step.operands[operand].view);
            text += &format!("let x{operand} = {};\n", kernel.load(operand, &at));
        }
        text += &format!("let values = {};\n", function.call("acc", |o| format!("x{o}")));
        for (output, result) in function.results.iter().enumerate() {
            let at = index(kernel, &names[output], &step.outputs[output].view);
            text.push_str(&kernel.store(output, &at, &format!("values{result}")));
        }
        text
    }
}

/// The index of the element at `row` and `column` of a matrix that begins at `start`.
fn index(kernel: &mut KernelBuilder<'_>, start: &str, view: &View) -> String {
    kernel.index(start, last_two(view), &["row".to_string(), "column".to_string()])
}

fn last_two(view: &View) -> &[i64] {
    &view.strides[view.strides.len() - 2..]
}
