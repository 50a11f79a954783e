//! Products whose k is cut into parts: partial sums in scratch memory, and the dispatch that adds them.

use super::Product;
use crate::codegen::Dispatch;
use crate::codegen::kernel::{Kernel, THREADS};

impl Product {
    /// The function that leaves partial sums in the scratch memory, as `[parts, batch, m, n]`. It takes the part
    /// and the batch from private variables.
    pub fn store_partial(&self, kernel: &mut Kernel<'_>, base_parameters: &str) -> String {
        let scratch = kernel.bind_scratch(true);
        let (m, n) = (kernel.size(self.m), kernel.size(self.n));
        let count = kernel.size(self.count());
        let mut text = format!(
            "fn store(row: u32, column: u32, acc: vec4<{}>{base_parameters}) {{\n    \
             if row >= {m} {{ return; }}\n    \
             let at = ((part * {count} + batch_of) * {m} + row) * {n} + column;\n",
            self.ty_name()
        );
        for lane in 0..4 {
            text += &format!(
                "    if column + {lane}u < {n} {{ {scratch}[at + {lane}u] = bitcast<u32>(acc[{lane}]); }}\n"
            );
        }
        format!("var<private> part: u32;\nvar<private> batch_of: u32;\n\n{text}}}\n")
    }

    /// Adds the parts and stores the outputs.
    pub fn combine(&self, mut kernel: Kernel<'_>) -> Dispatch {
        kernel.bind_outputs(|_| false);
        let operands = kernel.operands_of(&kernel.output_roots());
        kernel.bind_operands(&operands, |_| false);
        let scratch = kernel.bind_scratch(false);
        let (bases, names) = kernel.bases("b", "batch", &self.batch, self.offsets.iter().copied());
        let roots = kernel.output_roots();
        let function = kernel.function("compute_results", &roots, Some(self.ty));
        let each = self.results().each(&mut kernel, &function, &names);
        let results = self.m * self.n * self.count();
        let holes = [
            ("functions", function.text.clone()),
            ("ty", self.ty_name().to_string()),
            ("scratch", scratch),
            ("results", kernel.size(results)),
            ("parts", kernel.size(self.parts)),
            ("m", kernel.size(self.m)),
            ("n", kernel.size(self.n)),
            ("bases", bases),
            ("each", each),
        ];
        let template = include_str!("../../../shaders/product_combine.wgsl");
        kernel.dispatch(template, &holes, " (combine)", results.div_ceil(THREADS))
    }

    /// The addition to the step's label for the first dispatch.
    pub fn phase(&self) -> &'static str {
        if self.parts > 1 { " (parts)" } else { "" }
    }

    /// Statements for the start of a kernel whose functions store partial sums.
    pub fn announce_part(&self) -> &'static str {
        if self.parts > 1 { "part = id / tiles;\nbatch_of = batch;" } else { "" }
    }
}
