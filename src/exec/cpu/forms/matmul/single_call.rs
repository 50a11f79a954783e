//! Products that one thread computes by one call of `gemm`. Its arguments are worked out once, before the first run: for
//! a small product, that takes as long as the call.

use std::sync::Arc;

use gemm::Parallelism;

use super::operand::{Floats, Matrices};
use super::{MatrixPointer, blocks, gemm};
use crate::base::dtype::{DType, Ty};
use crate::exec::HostBuffer;
use crate::exec::cpu::Job;
use crate::expr::{ExprNode, Ref};
use crate::plan::{MatMulForm, OperandSource, StepOutput, ValueId};

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

/// The one call of `gemm` that computes `product`; `None` if that takes more than one call.
pub(super) fn find(job: &Job<'_>, product: &MatMulForm) -> Option<SingleCall> {
    let [StepOutput { root, dtype: DType::F32, .. }] = job.step.outputs[..] else {
        return None;
    };
    let is_result = matches!(job.step.expr.node(root), ExprNode::Acc);
    if !is_result || product.acc != Ty::F32 || product.spread.is_some() {
        return None;
    }
    let values = [value(job, product.x)?, value(job, product.w)?];
    let floats = Floats::new(product, Matrices::of(job, product, true, false).ok()?);
    let is_one = floats.count == 1 && !floats.size.contains(&0);
    if !is_one || !blocks::is_one_call(&floats) {
        return None;
    }
    let [x, w] = values;
    let (x, w) = (operand(x, &floats.x)?, operand(w, &floats.w)?);
    Some(SingleCall { size: floats.size, x, w })
}

fn operand(value: ValueId, matrices: &Matrices<'_>) -> Option<CallOperand> {
    let start = usize::try_from(matrices.start(0)).ok()?;
    Some(CallOperand { value, len: matrices.words().len(), start, strides: matrices.strides() })
}

/// The value that `root` loads, if `root` only loads, and the value holds all of the operand as `f32`.
fn value(job: &Job<'_>, root: Ref) -> Option<ValueId> {
    let ExprNode::Load(n) = job.step.expr.node(root) else { return None };
    let operand = &job.step.operands[usize::from(n)];
    let OperandSource::Value(value) = operand.source else { return None };
    let buffer = job.values[value.index()].as_deref()?;
    let lies_there = operand.dtype == DType::F32 && operand.view.is_inside(buffer.len());
    lies_there.then_some(value)
}
