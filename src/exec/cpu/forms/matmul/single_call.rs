//! Products that one thread computes by one call of `gemm`. Its arguments are worked out once, before the first run: for
//! a small product, that takes as long as the call.

use std::sync::Arc;

use gemm::Parallelism;

use super::gemm_call::{MatrixPointer, gemm};
use crate::exec::HostBuffer;
use crate::plan::ValueId;

/// A product of two matrices of `f32` that lie in memory; the sums are the result.
#[derive(Debug)]
pub(crate) struct SingleCall {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: CallOperand,
    pub w: CallOperand,
}

/// A matrix in a value.
#[derive(Debug)]
pub(crate) struct CallOperand {
    pub value: ValueId,
    /// Words of the value; all elements lie inside them.
    pub len: usize,
    /// Position of the first element.
    pub start: usize,
    pub strides: [isize; 2],
}

impl SingleCall {
    /// Computes `out`. Returns `false`, and computes nothing, if `out` or an operand has another length than expected.
    pub fn multiply(&self, values: &[Option<Arc<HostBuffer>>], out: &mut HostBuffer) -> bool {
        let [m, n, _] = self.size;
        let Some([x, w]) =
            self.x.pointer(values).zip(self.w.pointer(values)).map(<[MatrixPointer; 2]>::from)
        else {
            return false;
        };
        let Some(out) = out.as_slice_mut::<f32>().filter(|out| out.len() == m * n) else {
            return false;
        };
        // SAFETY: all elements of both operands lie inside their values (`Floats` checked it for these lengths), and
        // `pointer` compared the lengths. `out` has m·n elements.
        unsafe { gemm(self.size, x, w, (out.as_mut_ptr(), n), false, Parallelism::None) };
        true
    }
}

impl CallOperand {
    /// The address of the first element, if the value is as long as expected.
    fn pointer(&self, values: &[Option<Arc<HostBuffer>>]) -> Option<MatrixPointer> {
        let words = values[self.value.index()].as_deref()?.words();
        // The pointer to all words is the origin, since strides may lead back from the start.
        let start = words.as_ptr().wrapping_add(self.start).cast();
        (words.len() == self.len).then_some(MatrixPointer { start, strides: self.strides })
    }
}
