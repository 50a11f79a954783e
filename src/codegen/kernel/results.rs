//! Outputs over matrices: the function that computes and stores them, for products and attention alike.

use super::lanes::{self, Loaded};
use crate::base::dtype::Ty;
use crate::base::shape::View;
use crate::codegen::kernel::{Kernel, KernelFunction, OuterMaps, passed};
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
    pub fn bind(&self, kernel: &mut Kernel<'_>, wide: &[bool]) {
        let wide_outputs: Vec<bool> =
            kernel.step.outputs.iter().map(|output| Self::is_wide(&output.view)).collect();
        kernel.bind_outputs(|output| wide_outputs[output]);
        let operands = kernel.operands_of(&kernel.output_roots());
        kernel.bind_operands(&operands, |o| wide[o]);
    }

    pub fn is_wide(view: &View) -> bool {
        let rank = view.dims.len();
        lanes::is_wide_along(view, rank - 1, rank - 2)
    }

    /// The function that computes and stores the outputs of four neighbours along a row.
    pub fn store(&self, kernel: &mut Kernel<'_>, names: &[String]) -> String {
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
        kernel: &mut Kernel<'_>,
        function: &KernelFunction,
        names: &[String],
    ) -> String {
        let step = kernel.step;
        let axes = ["row".to_string(), "column".to_string()];
        let mut loaded = Loaded::default();
        for &operand in &function.operands {
            let strides = last_two(&step.operands[operand].view);
            let start = self.maps.base(operand, names);
            let at = kernel.index(start, strides, &axes);
            loaded.load(kernel, operand, &at, strides[1]);
        }
        let mut text = loaded.text.clone();
        for (lane, call) in lanes::LANES.iter().zip(loaded.calls(function, "acc")) {
            text += &format!("let result_{lane} = {call};\n");
        }
        for (output, result) in function.results.iter().enumerate() {
            let view = &step.outputs[output].view;
            let strides = last_two(view);
            let at = kernel.index(&names[output], strides, &axes);
            let values = lanes::LANES.map(|lane| format!("result_{lane}{result}"));
            if Self::is_wide(view) {
                text += &kernel.store_quad(output, &format!("({at}) / 4u"), &values);
                continue;
            }
            let stride = kernel.param(strides[1]);
            for (k, value) in values.iter().enumerate() {
                text += &kernel.store(output, &format!("{at} + {k}u * {stride}"), value);
            }
        }
        text
    }

    /// Binds the memory of a dispatch that combines partial results, and makes its texts.
    pub fn combined(&self, kernel: &mut Kernel<'_>) -> Combined {
        kernel.bind_outputs(|_| false);
        let roots = kernel.output_roots();
        let operands = kernel.operands_of(&roots);
        kernel.bind_operands(&operands, |_| false);
        let scratch = kernel.bind_scratch(false);
        let (bases, names) = self.maps.bases(kernel, "b", "batch");
        let function = kernel.function("compute_results", &roots, Some(self.ty));
        let each = self.each(kernel, &function, &names);
        Combined { scratch, functions: function.text, bases, each }
    }

    /// Statements that store one element.
    fn each(&self, kernel: &mut Kernel<'_>, function: &KernelFunction, names: &[String]) -> String {
        let step = kernel.step;
        let axes = ["row".to_string(), "column".to_string()];
        let mut text = String::new();
        for &operand in &function.operands {
            let strides = last_two(&step.operands[operand].view);
            let start = self.maps.base(operand, names);
            let at = kernel.index(start, strides, &axes);
            text += &format!("let x{operand} = {};\n", kernel.load(operand, &at));
        }
        text += &format!("let values = {};\n", function.call("acc", |o| format!("x{o}")));
        for (output, result) in function.results.iter().enumerate() {
            let strides = last_two(&step.outputs[output].view);
            let at = kernel.index(&names[output], strides, &axes);
            text.push_str(&kernel.store(output, &at, &format!("values{result}")));
        }
        text
    }
}

/// The texts of a dispatch that combines the partial results of parts.
pub(crate) struct Combined {
    pub scratch: String,
    pub functions: String,
    /// Statements that find where the batch begins in every map.
    pub bases: String,
    /// Statements that store one element.
    pub each: String,
}

fn last_two(view: &View) -> &[i64] {
    &view.strides[view.strides.len() - 2..]
}
