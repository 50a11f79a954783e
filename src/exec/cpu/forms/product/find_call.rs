//! The search for products that one call of the kernel computes.

use super::blocks;
use super::by_kernel;
use super::floats::Floats;
use super::kernel::Kernel;
use super::operand::Matrices;
use crate::base::dtype::{DType, Ty};
use crate::exec::cpu::StepJob;
use crate::exec::cpu::step_cache::{CallOperand, SingleCall};
use crate::expr::{ExprNode, Ref};
use crate::plan::{OperandSource, ProductForm, StepOutput, ValueId};

/// The one call of the kernel that computes `product`; `None` if that takes more than one call.
pub(super) fn find(job: &StepJob<'_>, product: &ProductForm) -> Option<SingleCall> {
    let [StepOutput { root, dtype: DType::F32, .. }] = job.step.outputs[..] else {
        return None;
    };
    let is_result = matches!(job.step.expr.node(root), ExprNode::Acc);
    if !is_result || product.acc != Ty::F32 || product.spread.is_some() {
        return None;
    }
    let values = [value(job, product.x)?, value(job, product.w)?];
    let floats = Floats::new(product, Matrices::of(job, product, false).ok()?);
    let [_, n, k] = floats.size;
    let is_one = floats.count == 1
        && !floats.size.contains(&0)
        && by_kernel::last_columns(Kernel::native(), [n, k]) == 0;
    if !is_one || !blocks::is_one_block(&floats) {
        return None;
    }
    let ([x_row, x_column], [w_row, w_column]) = (floats.x.strides(), floats.w.strides());
    let has_columns = match (w_row, w_column) {
        (_, 1) => false,
        (1, _) if !floats.by_panels => true,
        _ => return None,
    };
    let [x, w] = values;
    let x = operand(x, &floats.x, x_row).filter(|_| x_column == 1)?;
    let w = operand(w, &floats.w, if has_columns { w_column } else { w_row })?;
    Some(SingleCall { size: floats.size, x, w, has_columns })
}

fn operand(value: ValueId, matrices: &Matrices<'_>, stride: isize) -> Option<CallOperand> {
    let start = usize::try_from(matrices.start(0)).ok()?;
    let stride = usize::try_from(stride).ok()?;
    Some(CallOperand { value, len: matrices.words().len(), start, stride })
}

/// The value that `root` loads, if `root` only loads, and the value holds all of the operand as `f32`.
fn value(job: &StepJob<'_>, root: Ref) -> Option<ValueId> {
    let ExprNode::Load(n) = job.step.expr.node(root) else { return None };
    let operand = &job.step.operands[usize::from(n)];
    let OperandSource::Value(value) = operand.source else { return None };
    let buffer = job.values[value.index()].as_deref()?;
    let lies_there = operand.dtype == DType::F32 && operand.view.is_inside(buffer.len());
    lies_there.then_some(value)
}
