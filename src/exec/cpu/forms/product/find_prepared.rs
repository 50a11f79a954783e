//! The search for the operands of short products in memory, once for each step.

use super::blocks;
use super::by_kernel;
use super::floats::{FEW, Floats};
use super::operand::Matrices;
use crate::base::dtype::{DType, Ty};
use crate::exec::cpu::StepJob;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::step_cache::{MatrixInValue, PreparedProduct, RightMatrix};
use crate::expr::{ExprNode, Ref};
use crate::plan::{ProductForm, Space, StepOutput, ValueId};

/// Returns `product` with its operands in memory, if it is short and all of its operands lie there.
pub(super) fn find(job: &StepJob<'_>, product: &ProductForm) -> Option<PreparedProduct> {
    let [StepOutput { root, dtype: DType::F32, .. }] = job.step.outputs[..] else {
        return None;
    };
    if product.acc != Ty::F32 || product.spread.is_some() {
        return None;
    }
    let [x_value, w_value] = [value(job, product.x)?, value(job, product.w)?];
    let [x, mut w] = Matrices::of(job, product, false).ok()?;
    // The search is no read, after which panels would be kept.
    w.arranged = None;
    let floats = Floats::new(product, [x, w]);
    let is_one = floats.count == 1 && !floats.size.contains(&0);
    if !is_one || !blocks::is_preparable(&floats) {
        return None;
    }
    let [m, n, k] = floats.size;
    let ([x_row, x_column], w_strides) = (floats.x.strides(), floats.w.strides());
    let x = operand(x_value, &floats.x, x_row).filter(|_| x_column == 1)?;
    let w = match w_strides {
        _ if floats.by_panels => RightMatrix::Panels(w_value, floats.w.panels_key([k, n])),
        [row, 1] if m <= FEW || by_kernel::fits_in_place(row, k * n) => {
            RightMatrix::Rows(operand(w_value, &floats.w, row)?)
        }
        [1, column] => RightMatrix::Columns(operand(w_value, &floats.w, column)?),
        _ => return None,
    };
    let has_links = !matches!(job.step.expr.node(root), ExprNode::Acc);
    if has_links && !Epilogue::chain(job, &job.inputs(Space::Out))?.lies_in_memory() {
        return None;
    }
    Some(PreparedProduct { size: floats.size, x, w })
}

fn operand(value: ValueId, matrices: &Matrices<'_>, stride: isize) -> Option<MatrixInValue> {
    let start = usize::try_from(matrices.start(0)).ok()?;
    let stride = usize::try_from(stride).ok()?;
    Some(MatrixInValue { value, len: matrices.words().len(), start, stride })
}

/// The value that `root` loads, if `root` only loads, and the value holds all of the operand as `f32`.
fn value(job: &StepJob<'_>, root: Ref) -> Option<ValueId> {
    let operand = job.step.loaded(root)?;
    let (value, buffer) = job.value_of(operand)?;
    let lies_there = operand.dtype == DType::F32 && operand.view.is_inside(buffer.len());
    lies_there.then_some(value)
}
