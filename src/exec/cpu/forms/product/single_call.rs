//! Products that one thread computes by one call of the kernel. Its arguments are worked out once, before the first run:
//! for a small product, that takes as long as the call.

use std::sync::Arc;

use bytemuck::cast_slice;

use super::kernel::{DotProducts, Kernel, PanelProduct, Panels, Rows};
use crate::exec::HostBuffer;
use crate::exec::cpu::step_cache::{CallOperand, SingleCall};

impl SingleCall {
    /// Computes `out`. Returns `false`, and computes nothing, if `out` or an operand has another length than expected.
    pub fn multiply(&self, values: &[Option<Arc<HostBuffer>>], out: &mut HostBuffer) -> bool {
        let size @ [m, n, _] = self.size;
        let Some((x, w)) = self.x.rows(values).zip(self.w.rows(values)) else { return false };
        let Some(out) = out.as_slice_mut::<f32>().filter(|out| out.len() == m * n) else {
            return false;
        };
        let kernel = Kernel::native();
        // SAFETY: `out` has m·n elements.
        unsafe {
            if self.has_columns {
                kernel.dots(&DotProducts { size, x, w }, out.as_mut_ptr(), n, false);
            } else {
                let product = PanelProduct { size, x, w: Panels::InPlace(w) };
                kernel.panels(&product, out.as_mut_ptr(), n, false);
            }
        }
        true
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
