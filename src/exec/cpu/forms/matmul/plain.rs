//! Products that are one call of `gemm`: what it is given is found out once, since small ones take as long as that.

use std::sync::Arc;

use gemm::Parallelism;

use super::operand::{Floats, Matrices};
use super::{Place, blocks, gemm};
use crate::base::dtype::{DType, Ty};
use crate::exec::HostBuffer;
use crate::exec::cpu::Job;
use crate::expr::{Node, Ref};
use crate::plan::{MatMulForm, Source, StepOutput, ValueId};

/// A product of two matrices of `f32` that lie in memory, whose sums are the result.
#[derive(Debug)]
pub(in crate::exec::cpu) struct Plain {
    size: [usize; 3],
    x: Lying,
    w: Lying,
}

/// A matrix in a value.
#[derive(Debug)]
struct Lying {
    value: ValueId,
    /// Words of the value, inside which all elements lie.
    len: usize,
    /// The first element.
    start: usize,
    strides: [isize; 2],
}

impl Plain {
    /// What `product` comes to, if it is plain and one thread does it in one call.
    pub fn of(job: &Job<'_>, product: &MatMulForm) -> Option<Self> {
        let [StepOutput { root, dtype: DType::F32, .. }] = job.step.outputs[..] else {
            return None;
        };
        let is_result = matches!(job.step.expr.node(root), Node::Acc);
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
        let (x, w) = (Lying::of(x, &floats.x)?, Lying::of(w, &floats.w)?);
        Some(Self { size: floats.size, x, w })
    }

    /// Computes `out`. `false`, and nothing is done, if it or the operands are not as long as they were.
    pub fn multiply(&self, values: &[Option<Arc<HostBuffer>>], out: &mut HostBuffer) -> bool {
        let [m, n, _] = self.size;
        let Some([x, w]) = self.x.place(values).zip(self.w.place(values)).map(<[Place; 2]>::from)
        else {
            return false;
        };
        let Some(out) = out.as_slice_mut::<f32>().filter(|out| out.len() == m * n) else {
            return false;
        };
        // SAFETY: all elements of both operands lie inside their values (`Floats` makes sure), which are as long as they
        // were then; `out` has m·n elements.
        unsafe { gemm(self.size, x, w, (out.as_mut_ptr(), n), false, Parallelism::None) };
        true
    }
}

impl Lying {
    fn of(value: ValueId, matrices: &Matrices<'_>) -> Option<Self> {
        let start = usize::try_from(matrices.start(0)).ok()?;
        Some(Self { value, len: matrices.words().len(), start, strides: matrices.strides() })
    }

    fn place(&self, values: &[Option<Arc<HostBuffer>>]) -> Option<Place> {
        let words = values[self.value.index()].as_deref()?.words();
        // Of all words: strides may lead back from the start.
        let start = words.as_ptr().wrapping_add(self.start).cast();
        (words.len() == self.len).then_some(Place { start, strides: self.strides })
    }
}

/// The value in which the `f32` lie that `root` loads, where it does nothing else.
fn value(job: &Job<'_>, root: Ref) -> Option<ValueId> {
    let Node::Load(n) = job.step.expr.node(root) else { return None };
    let operand = &job.step.operands[usize::from(n)];
    let Source::Value(value) = operand.source else { return None };
    let buffer = job.values[value.index()].as_deref()?;
    let lies_there = operand.dtype == DType::F32 && operand.view.is_inside(buffer.len());
    lies_there.then_some(value)
}
