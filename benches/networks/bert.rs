//! A layer of the encoder of BERT-base (Devlin et al., 2018, <https://arxiv.org/abs/1810.04805>).

use onetrip::{Attention, Tensor};

use super::{Real, Result, Weights, length, linear};

pub const WIDTH: usize = 768;
const HEADS: usize = 12;
const INNER: usize = 3072;
const EPSILON: f32 = 1e-12;

/// Hidden states `[n, tokens, 768]` to the next.
pub fn record<'b, T: Real>(weights: &Weights<T>, x: Tensor<'b, T>) -> Result<Tensor<'b, T>> {
    let shape = [length(x, 0), length(x, 1), WIDTH];
    let head = |name: &str| -> Result<Tensor<'b, T>> {
        let part = linear(weights, &format!("attention.self.{name}"), x, [WIDTH, WIDTH])?;
        let part = part.reshape([shape[0], shape[1], HEADS, WIDTH / HEADS]);
        Ok(part.permute([0, 2, 1, 3]))
    };
    let (query, key, value) = (head("query")?, head("key")?, head("value")?);
    let mixed = query.scaled_dot_product_attention(key, value, Attention::default());
    let mixed = mixed.permute([0, 2, 1, 3]).reshape(shape);
    let mixed = linear(weights, "attention.output.dense", mixed, [WIDTH, WIDTH])?;
    let x = norm(weights, "attention.output.LayerNorm", x + mixed)?;
    let inner = linear(weights, "intermediate.dense", x, [WIDTH, INNER])?.gelu();
    let outer = linear(weights, "output.dense", inner, [INNER, WIDTH])?;
    norm(weights, "output.LayerNorm", x + outer)
}

fn norm<'b, T: Real>(weights: &Weights<T>, name: &str, x: Tensor<'b, T>) -> Result<Tensor<'b, T>> {
    let weight = weights.factors(&format!("{name}.weight"), WIDTH)?;
    let bias = weights.bias(&format!("{name}.bias"), WIDTH)?;
    Ok(x.layer_norm_with(&weight, &bias, -1, EPSILON))
}
