//! Attention: scores, their exponentials and sums of values in one kernel.
//!
//! [`load`] reads operands, [`body`] writes the statements of the kernel's loop, [`units`] those of the kernel for
//! matrix units, [`strip`] those of the kernel for few queries. [`parts`] gives each workgroup its tile, and combines the
//! parts of the keys.

mod body;
mod collapsed;
mod load;
mod parts;
mod rounds;
mod strip;
mod units;

use self::body::TileKernel;
use self::collapsed::{CollapsedAttention, prologues};
use self::strip::StripKernel;
use self::units::Squares;
use super::Dispatch;
use super::kernel::{KernelBuilder, passed};
use crate::codegen::kernel::results::MatrixResults;
use crate::codegen::kernel::template::{fill, holes, shader};
use crate::plan::{AttentionForm, AttentionLayout, AttentionSchedule};

/// Lowers an attention; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(
    form: &AttentionForm,
    kernel: &dyn Fn() -> KernelBuilder<'a>,
) -> Vec<Dispatch> {
    let first = kernel();
    let attention = CollapsedAttention::new(form, &first);
    if form.schedule.parts == 1 {
        return vec![attention.dispatch(first)];
    }
    vec![attention.dispatch(first), attention.combine(kernel())]
}

impl CollapsedAttention<'_> {
    fn dispatch(&self, mut kernel: KernelBuilder<'_>) -> Dispatch {
        let alone = |o: usize| MatrixResults::is_wide(&kernel.step.operands[o].view);
        let wide = self.results.wide(&kernel, alone);
        let in_parts = self.form.schedule.parts > 1;
        if !in_parts {
            self.results.bind(&mut kernel, &wide);
        }
        let scratch = in_parts.then(|| kernel.bind_scratch(true));
        let operands = kernel.operands_of(&prologues(self.form));
        kernel.bind_operands(&operands, |o| wide[o]);
        let (bases, names) = self.results.maps.bases(&mut kernel, "b", "batch");
        let (parameters, arguments) = passed(&names);
        let unit = holes! { unit: self.unit() };
        let mut functions = fill(shader!("attention/weights.wgsl"), &unit) + "\n";
        functions += &self.loads(&mut kernel, &names, &parameters);
        functions += &match scratch {
            None => self.results.store(&mut kernel, &names),
            Some(scratch) => self.store_partial(&mut kernel, &scratch),
        };
        let (locate, groups) = self.locate(&mut kernel);
        let AttentionSchedule { layout, rows, each, keys, columns, .. } = self.form.schedule;
        let mut holes = holes! {
            functions, locate, bases, rows, each, keys, columns,
            threads: self.form.schedule.threads(),
        };
        let arguments = arguments.as_str();
        let template = match layout {
            AttentionLayout::Tiles => {
                holes.extend(TileKernel { attention: self, arguments }.holes(&mut kernel));
                shader!("attention/tiles.wgsl")
            }
            AttentionLayout::Units(units) => {
                let squares = Squares { attention: self, names: &names, arguments, units };
                holes.extend(squares.holes(&mut kernel));
                kernel.enable("f16");
                kernel.enable("wgpu_cooperative_matrix");
                shader!("attention/units.wgsl")
            }
            AttentionLayout::Strips { lanes } => {
                holes.extend(StripKernel { attention: self, arguments, lanes }.holes(&mut kernel));
                shader!("attention/strip.wgsl")
            }
        };
        let phase = if in_parts { " (parts)" } else { "" };
        kernel.dispatch(template, &holes, phase, groups)
    }
}
