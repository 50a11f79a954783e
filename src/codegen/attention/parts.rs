//! The tile of each workgroup, and attentions whose keys are cut into parts: partial results in scratch memory, and the
//! dispatch that combines them.

use super::collapsed::{CollapsedAttention, LEAST};
use crate::codegen::Dispatch;
use crate::codegen::kernel::template::{fill, holes, shader};
use crate::codegen::kernel::{KernelBuilder, THREADS};
use crate::plan::AttentionSchedule;

impl CollapsedAttention<'_> {
    /// Statements that find the workgroup's rows, columns and keys; and the number of workgroups.
    pub fn locate(&self, kernel: &mut KernelBuilder<'_>) -> (String, usize) {
        let AttentionSchedule { rows, columns, parts, .. } = self.form.schedule;
        let (high, across) = (self.form.queries.div_ceil(rows), self.form.out.div_ceil(columns));
        let count = self.results.maps.axes.len();
        let groups = high * across * count * parts;
        let mut holes = holes! {
            groups: kernel.size(groups), high: kernel.size(high), across: kernel.size(across),
            count: kernel.size(count), part: kernel.size(self.form.schedule.part(self.form.keys)),
            keys: kernel.size(self.form.keys), rows, columns,
        };
        let end = match self.form.causal {
            Some(offset) => {
                let offset = kernel.param(offset + rows as i64);
                format!(
                    "let seen = u32(max(i32(first_row + {offset}), 0));\n\
                     let end_key = min(last_key, seen);"
                )
            }
            None => "let end_key = last_key;".to_string(),
        };
        holes.extend(holes! { end });
        (fill(shader!("attention/locate.wgsl"), &holes), groups)
    }

    /// The functions that leave partial results in the memory `scratch`.
    pub fn store_partial(&self, kernel: &mut KernelBuilder<'_>, scratch: &str) -> String {
        let holes = holes! {
            queries: kernel.size(self.form.queries), out: kernel.size(self.form.out),
            count: kernel.size(self.results.maps.axes.len()), scratch,
        };
        fill(shader!("attention/partial.wgsl"), &holes)
    }

    /// Combines the parts and stores the outputs.
    pub fn combine(&self, mut kernel: KernelBuilder<'_>) -> Dispatch {
        let mut holes = self.results.combined(&mut kernel);
        let rows = self.results.maps.axes.len() * self.form.queries;
        let results = rows * self.form.out;
        holes.extend(holes! {
            unit: self.unit(), least: LEAST, results: kernel.size(results), rows: kernel.size(rows),
            parts: kernel.size(self.form.schedule.parts), queries: kernel.size(self.form.queries),
            out: kernel.size(self.form.out),
        });
        let groups = results.div_ceil(THREADS);
        kernel.dispatch(shader!("attention/combine.wgsl"), &holes, " (combine)", groups)
    }
}
