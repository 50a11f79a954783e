//! A layer of gated recurrent units (Cho et al., 2014, <https://arxiv.org/abs/1406.1078>) over a sequence.

use onetrip::{CellWeights, Recurrence, Tensor};

use super::{Real, Result, Weights};

pub const INPUTS: usize = 64;
const STATES: usize = 128;

/// A sequence `[steps, n, 64]` to the states `[steps, n, 128]`.
pub fn record<'b, T: Real>(weights: &Weights<T>, x: Tensor<'b, T>) -> Result<Tensor<'b, T>> {
    let b = x.batch();
    let input = weights.filters("weight_ih_l0", &[3 * STATES, INPUTS])?;
    let hidden = weights.filters("weight_hh_l0", &[3 * STATES, STATES])?;
    let bias = [weights.bias("bias_ih_l0", 3 * STATES)?, weights.bias("bias_hh_l0", 3 * STATES)?];
    let cell = CellWeights::with_bias(b, &input, &hidden, [&bias[0], &bias[1]]);
    Ok(x.gru(&[cell], None, Recurrence::default()).0)
}
