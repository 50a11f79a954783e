//! The form of kernels of the user's own.

use std::sync::Arc;

use smallvec::SmallVec;

use super::axes::Dims;
use super::kernel_form::{KernelForm, Measure};
use super::tally::{Tally, count};
use crate::cost::selector::OpComplexity;
use crate::ops::CustomKernel;
use crate::plan::step_parts::Space;

/// The assumed flops of an element: nothing is known of the kernel.
const FLOPS: f64 = 64.0;

/// A kernel of the user's own, over tables; its one output, over `dims`, holds the elements that it writes, and 0
/// elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CustomForm {
    pub kernel: Arc<CustomKernel>,
    pub dims: Dims,
    /// Operands of the step, by position.
    pub inputs: SmallVec<[u16; 4]>,
    /// True if the kernel has workgroups, and each input elements.
    pub runs: bool,
}

impl KernelForm for CustomForm {
    fn name(&self) -> &'static str {
        "wgsl"
    }

    fn complexity(&self) -> OpComplexity {
        OpComplexity::High
    }

    fn dims(&self, _space: Space) -> Vec<usize> {
        self.dims.to_vec()
    }

    fn work(&self, tally: &mut Tally<'_>) {
        tally.work.arithmetic += FLOPS * count(&self.dims);
    }

    /// The result is filled with zeros first.
    fn dispatches(&self, _has_scratch: bool) -> u64 {
        1 + u64::from(self.runs)
    }

    fn measure(&self) -> Measure {
        Measure::Elements(self.points())
    }

    fn custom_kernel(&self) -> Option<&CustomKernel> {
        Some(&self.kernel)
    }
}
