//! The windows of images that the right operand of a product is.

use smallvec::SmallVec;

use crate::base::dtype::DType;
use crate::exec::cpu::StepJob;
use crate::exec::cpu::operands::Windows;
use crate::plan::{Border, ProductForm, Spread};

/// The windows of images of `f32` in memory, if the right operand is no more than that.
pub(super) fn windows<'a>(
    job: &StepJob<'a>,
    product: &ProductForm,
    spread: &Spread,
) -> Option<Windows<'a>> {
    let (step, operands) = (job.step, &job.step.operands);
    let border = Border::of(&step.borders, product.w);
    let element = border.map_or(product.w, |border| border.element);
    let (operand, _, buffer) = job.loaded(element)?;
    let number = border.map_or(0, |border| step.scalars[border.number].lane_bits());
    let inside = border.map_or(&[][..], |border| &border.inside);
    let words = buffer.words();
    let counters: SmallVec<[_; 2]> =
        inside.iter().map(|(at, range)| (&operands[*at].view, range.clone())).collect();
    let is_float = operand.dtype == DType::F32;
    let axes = [product.batch.len(), spread.n.len()];
    is_float.then(|| Windows::new((words, number), &operand.view, &counters, axes)).flatten()
}
