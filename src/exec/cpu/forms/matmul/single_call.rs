//! A product that is one call of `gemm`. Its arguments are worked out once: for a small product that takes as long as
//! the call.

use std::sync::Arc;

use gemm::Parallelism;

use super::{Place, gemm};
use crate::exec::HostBuffer;
use crate::plan::ValueId;

/// A product of two matrices of `f32` that lie in memory; the sums are the result.
#[derive(Debug)]
pub(in crate::exec::cpu) struct SingleCall {
    /// Rows, columns and the length of the sums.
    pub size: [usize; 3],
    pub x: Operand,
    pub w: Operand,
}

/// A matrix in a value.
#[derive(Debug)]
pub(in crate::exec::cpu) struct Operand {
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
        let Some([x, w]) = self.x.place(values).zip(self.w.place(values)).map(<[Place; 2]>::from)
        else {
            return false;
        };
        let Some(out) = out.as_slice_mut::<f32>().filter(|out| out.len() == m * n) else {
            return false;
        };
        // SAFETY: all elements of both operands lie inside their values (`Floats` checked it for these lengths), and
        // `place` compared the lengths; `out` has m·n elements.
        unsafe { gemm(self.size, x, w, (out.as_mut_ptr(), n), false, Parallelism::None) };
        true
    }
}

impl Operand {
    /// The address of the first element, if the value is as long as expected.
    fn place(&self, values: &[Option<Arc<HostBuffer>>]) -> Option<Place> {
        let words = values[self.value.index()].as_deref()?.words();
        // From the pointer to all words: strides may lead back from the start.
        let start = words.as_ptr().wrapping_add(self.start).cast();
        (words.len() == self.len).then_some(Place { start, strides: self.strides })
    }
}
