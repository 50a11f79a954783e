//! The interpreter's products and attention.

use super::{ExactTensor, from_scalar};
use crate::base::dtype::Scalar;
use crate::base::shape::Shape;
use crate::expr::Binary;
use crate::expr::reference::{LaneValue, binary};
use crate::ops::{AttentionDims, MatMulDims, Scores};
use crate::plan::reference::attended;

pub(super) fn matmul(x: &ExactTensor, w: &ExactTensor, at: &[usize]) -> LaneValue {
    let dims = MatMulDims::of(&x.shape, &w.shape).expect("inferred before");
    let mut at = at.to_vec();
    let n = if dims.vector_w { None } else { at.pop() };
    let m = if dims.vector_x { None } else { at.pop() };
    let batch = |tensor: &ExactTensor| -> Vec<usize> {
        let own = tensor.shape.rank().saturating_sub(2);
        let skip = at.len() - own;
        at[skip..]
            .iter()
            .zip(tensor.shape.dims())
            .map(|(&c, &d)| if d == 1 { 0 } else { c })
            .collect()
    };
    let (x_batch, w_batch) = (batch(x), batch(w));
    let zero = from_scalar(Scalar::new(x.dtype, 0.0));
    (0..dims.k).fold(zero, |sum, k| {
        let x_at: Vec<usize> = x_batch.iter().copied().chain(m).chain([k]).collect();
        let w_at: Vec<usize> = w_batch.iter().copied().chain([k]).chain(n).collect();
        binary(Binary::Add, sum, binary(Binary::Mul, x.at(&x_at), w.at(&w_at)))
    })
}

/// One element.
pub(super) fn attention(scores: Scores, inputs: &[&ExactTensor], at: &[usize]) -> LaneValue {
    let shapes: Vec<&Shape> = inputs.iter().map(|input| &input.shape).collect();
    let dims = AttentionDims::of(&shapes).expect("inferred before");
    let (batch, row, column) = (&at[..at.len() - 2], at[at.len() - 2], at[at.len() - 1]);
    let element = |input: usize, i: usize, j: usize| {
        let at: Vec<usize> = batch.iter().copied().chain([i, j]).collect();
        inputs[input].broadcast_at(&at).number()
    };
    let score = |key: usize| {
        let hidden = scores.causal.is_some_and(|offset| key as i64 > row as i64 + offset);
        if hidden {
            return f64::NEG_INFINITY;
        }
        let products = (0..dims.width).map(|e| element(0, row, e) * element(1, key, e));
        let mask = if inputs.len() > 3 { element(3, row, key) } else { 0.0 };
        products.sum::<f64>() * scores.scale.value() + mask
    };
    let all: Vec<f64> = (0..dims.keys).map(score).collect();
    LaneValue::F(attended(&all, |key| element(2, key, column)))
}
