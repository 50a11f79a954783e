//! Products that one thread computes by one call of the kernel. Its arguments are worked out once, before the first run:
//! for a small product, that takes as long as the call.

use bytemuck::cast_slice;
use smallvec::SmallVec;

use super::kernel::{DotProducts, Kernel, PanelProduct, Panels, Rows};
use crate::exec::HostBuffer;
use crate::exec::cpu::StepJob;
use crate::exec::cpu::chain::LinkOperand;
use crate::exec::cpu::step_cache::{CallOperand, RightOperand, SingleCall};
use crate::exec::cpu::vectors::links::{LaneLink, LaneOperand, Link, apply_links_in_place};

impl SingleCall {
    /// Computes `out`, the only output of `job`. Returns `None`, and computes nothing, if `out` or an operand has another
    /// length than expected, or if panels are not kept yet.
    pub fn multiply(&self, job: &StepJob<'_>, out: &mut HostBuffer) -> Option<()> {
        let size @ [m, n, k] = self.size;
        let kernel = Kernel::native();
        let right = match &self.w {
            RightOperand::Rows(w) => Ok(Panels::InPlace(w.rows(job)?)),
            RightOperand::Columns(w) => Err(w.rows(job)?),
            RightOperand::Panels(value, key) => {
                let data = job.values[value.index()].as_deref()?.arranged().kept(*key)?;
                Ok(Panels::Packed { data, pitch: kernel.panel_width * k })
            }
        };
        let x = self.x.rows(job)?;
        let out = out.as_slice_mut::<f32>().filter(|out| out.len() == m * n)?;
        let links = links(job, out.len())?;
        let sums = out.as_mut_ptr();
        // SAFETY: `out` has m·n elements.
        unsafe {
            match right {
                Ok(w) => kernel.panels(&PanelProduct { size, x, w }, sums, n, false),
                Err(w) => kernel.dots(&DotProducts { size, x, w }, sums, n, false),
            }
        }
        if !links.is_empty() {
            apply_links_in_place(&links, out);
        }
        Some(())
    }
}

/// The operations that follow `len` sums, bound to their operands. `None` if a value has another length than expected.
fn links<'a>(job: &StepJob<'a>, len: usize) -> Option<SmallVec<[LaneLink<'a>; 4]>> {
    let links = job.cache.known_chain().map_or(&[][..], |chain| &chain.links);
    let bound = |&(op, operand): &(Link, LinkOperand)| {
        let operand = match operand {
            LinkOperand::Constant(number) => LaneOperand::Splat(number),
            LinkOperand::Memory(at) => {
                let operand = &job.step.operands[usize::from(at)];
                let (_, value) = job.value_of(operand)?;
                let start = usize::try_from(operand.view.offset).ok()?;
                LaneOperand::Lanes(cast_slice(value.words().get(start..start + len)?))
            }
            LinkOperand::Stretch(_) | LinkOperand::Column(_) => return None,
        };
        Some(LaneLink::One(op, operand))
    };
    links.iter().map(bound).collect()
}

impl CallOperand {
    /// The rows or columns, if the value is as long as expected.
    fn rows<'a>(&self, job: &StepJob<'a>) -> Option<Rows<'a>> {
        let words = job.values[self.value.index()].as_deref()?.words();
        (words.len() == self.len)
            .then(|| Rows { data: cast_slice(&words[self.start..]), stride: self.stride })
    }
}
