//! The search for the operands of short products in memory, once for all like steps.

use super::blocks;
use super::by_kernel;
use super::f32_operands::{F32Operands, FEW};
use super::operand::Matrices;
use crate::base::dtype::{DType, Ty};
use crate::exec::cpu::StepJob;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::step_cache::{OperandMatrix, PreparedProduct, RightMatrix};
use crate::expr::{ExprNode, Ref};
use crate::plan::{ProductForm, Space, StepOutput};

/// Returns `product` with its operands in memory, if it is short and all of its operands lie there.
pub(super) fn find(job: &StepJob<'_>, product: &ProductForm) -> Option<PreparedProduct> {
    let [StepOutput { root, dtype: DType::F32, .. }] = job.step.outputs[..] else {
        return None;
    };
    if product.acc != Ty::F32 || product.spread.is_some() {
        return None;
    }
    let [x_at, w_at] = [stored(job, product.x)?, stored(job, product.w)?];
    let [x, mut w] = Matrices::of(job, product, false).ok()?;
    // The search is no read, after which panels would be kept.
    w.arranged = None;
    let floats = F32Operands::new(product, [x, w]);
    let is_one = floats.count == 1 && !floats.size.contains(&0);
    if !is_one || !blocks::is_preparable(&floats) {
        return None;
    }
    let [m, n, k] = floats.size;
    let ([x_row, x_column], w_strides) = (floats.x.strides(), floats.w.strides());
    let matrix = |operand, [lines, len]: [usize; 2], stride| {
        let stride = usize::try_from(stride).ok()?;
        Some(OperandMatrix { operand, span: (lines - 1) * stride + len, stride })
    };
    let x = matrix(x_at, [m, k], x_row).filter(|_| x_column == 1)?;
    let w = match w_strides {
        _ if floats.by_panels => RightMatrix::Panels(w_at, floats.w.panels_key([k, n])),
        [row, 1] if m <= FEW || by_kernel::fits_in_place(row, k * n) => {
            RightMatrix::Rows(matrix(w_at, [k, n], row)?)
        }
        [1, column] => RightMatrix::Columns(matrix(w_at, [n, k], column)?),
        _ => return None,
    };
    let has_links = !matches!(job.step.expr.node(root), ExprNode::Acc);
    if has_links && !Epilogue::chain(job, &job.inputs(Space::Out))?.lies_in_memory() {
        return None;
    }
    Some(PreparedProduct { size: floats.size, x, w })
}

/// The operand that `root` only loads, by position, if its value holds all of its elements as `f32`.
fn stored(job: &StepJob<'_>, root: Ref) -> Option<usize> {
    let at = job.step.expr.loaded(root)?;
    let operand = &job.step.operands[at];
    let (_, buffer) = job.value_of(operand)?;
    (operand.dtype == DType::F32 && operand.view.is_inside(buffer.len())).then_some(at)
}
