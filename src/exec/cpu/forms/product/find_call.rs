//! The search for products that one call of the kernel computes.

use smallvec::SmallVec;

use super::blocks;
use super::floats::Floats;
use super::operand::Matrices;
use crate::base::dtype::{DType, Ty};
use crate::exec::cpu::StepJob;
use crate::exec::cpu::chain::LinkOperand;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::step_cache::{CallNumbers, CallOperand, CallWeights, SingleCall};
use crate::exec::cpu::vectors::links::Link;
use crate::expr::{ExprNode, Ref};
use crate::plan::{ProductForm, Space, StepOutput, ValueId};

/// The one call of the kernel that computes `product`; `None` if that takes more than one call.
pub(super) fn find(job: &StepJob<'_>, product: &ProductForm) -> Option<SingleCall> {
    let [StepOutput { root, dtype: DType::F32, .. }] = job.step.outputs[..] else {
        return None;
    };
    if product.acc != Ty::F32 || product.spread.is_some() {
        return None;
    }
    let [x_value, w_value] = [value(job, product.x)?, value(job, product.w)?];
    let floats = Floats::new(product, Matrices::of(job, product, false).ok()?);
    let is_one = floats.count == 1 && !floats.size.contains(&0);
    if !is_one || !blocks::is_one_call(&floats) {
        return None;
    }
    let [_, n, k] = floats.size;
    let ([x_row, x_column], w_strides) = (floats.x.strides(), floats.w.strides());
    let x = operand(x_value, &floats.x, x_row).filter(|_| x_column == 1)?;
    let w = match w_strides {
        _ if floats.by_panels => CallWeights::Kept(w_value, floats.w.panels_key([k, n])),
        [row, 1] => CallWeights::Rows(operand(w_value, &floats.w, row)?),
        [1, column] => CallWeights::Columns(operand(w_value, &floats.w, column)?),
        _ => return None,
    };
    Some(SingleCall { size: floats.size, x, w, links: links(job, root)? })
}

/// The operations that follow the sums, if each takes a number, or a value that lies in memory as the sums do.
fn links(job: &StepJob<'_>, root: Ref) -> Option<SmallVec<[(Link, CallNumbers); 2]>> {
    if matches!(job.step.expr.node(root), ExprNode::Acc) {
        return Some(SmallVec::new());
    }
    let numbers = |operand| match operand {
        LinkOperand::Constant(number) => Some(CallNumbers::Constant(number)),
        LinkOperand::Memory(at) => {
            let operand = &job.step.operands[usize::from(at)];
            let (value, buffer) = job.data(operand)?;
            let start = usize::try_from(operand.view.offset).ok()?;
            let len = buffer.words().len();
            Some(CallNumbers::Each(CallOperand { value, len, start, stride: 1 }))
        }
        LinkOperand::Stretch(_) | LinkOperand::Column(_) => None,
    };
    let chain = Epilogue::chain(job, &job.inputs(Space::Out))?;
    chain.links.iter().map(|&(op, operand)| Some((op, numbers(operand)?))).collect()
}

fn operand(value: ValueId, matrices: &Matrices<'_>, stride: isize) -> Option<CallOperand> {
    let start = usize::try_from(matrices.start(0)).ok()?;
    let stride = usize::try_from(stride).ok()?;
    Some(CallOperand { value, len: matrices.words().len(), start, stride })
}

/// The value that `root` loads, if `root` only loads, and the value holds all of the operand as `f32`.
fn value(job: &StepJob<'_>, root: Ref) -> Option<ValueId> {
    let operand = job.step.loaded(root)?;
    let (value, buffer) = job.data(operand)?;
    let lies_there = operand.dtype == DType::F32 && operand.view.is_inside(buffer.len());
    lies_there.then_some(value)
}
