//! Products that one thread computes by one call of the kernel. Its arguments are worked out once, before the first run:
//! for a small product, that takes as long as the call.

use std::sync::Arc;

use bytemuck::cast_slice;
use smallvec::SmallVec;

use super::kernel::{DotProducts, Kernel, PanelProduct, Panels, Rows};
use crate::exec::HostBuffer;
use crate::exec::cpu::step_cache::{CallNumbers, CallOperand, CallWeights, SingleCall};
use crate::exec::cpu::vectors::links::{LaneLink, LaneOperand, apply_links_in_place};

impl SingleCall {
    /// Computes `out`. Returns `None`, and computes nothing, if `out` or an operand has another length than expected, or
    /// if panels are not kept yet.
    pub fn multiply(&self, values: &[Option<Arc<HostBuffer>>], out: &mut HostBuffer) -> Option<()> {
        let size @ [m, n, k] = self.size;
        let kernel = Kernel::native();
        let x = self.x.rows(values)?;
        let mut links = SmallVec::<[LaneLink<'_>; 4]>::new();
        for (op, numbers) in &self.links {
            let operand = match numbers {
                CallNumbers::Constant(number) => LaneOperand::Splat(*number),
                CallNumbers::Each(operand) => LaneOperand::Lanes(operand.rows(values)?.data),
            };
            links.push(LaneLink::One(*op, operand));
        }
        let right = match &self.w {
            CallWeights::Rows(w) => Ok(Panels::InPlace(w.rows(values)?)),
            CallWeights::Columns(w) => Err(w.rows(values)?),
            CallWeights::Kept(value, key) => {
                let data = values[value.index()].as_deref()?.arranged().kept(*key)?;
                Ok(Panels::Packed { data, pitch: kernel.panel_width * k })
            }
        };
        let out = out.as_slice_mut::<f32>().filter(|out| out.len() == m * n)?;
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

impl CallOperand {
    /// The rows or columns, if the value is as long as expected.
    fn rows<'v>(&self, values: &'v [Option<Arc<HostBuffer>>]) -> Option<Rows<'v>> {
        let words = values[self.value.index()].as_deref()?.words();
        (words.len() == self.len)
            .then(|| Rows { data: cast_slice(&words[self.start..]), stride: self.stride })
    }
}
