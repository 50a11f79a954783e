//! The network of magika, with the names of its weights in the package's model.

use onetrip::{Conv1d, Tensor};

/// Tokens of a file: the bytes of its start and its end, and 256 where there are none.
pub const TOKENS: usize = 2048;
pub const KINDS: usize = 214;
/// The width of embedded tokens, and the number of tokens in one column.
const WIDTH: usize = 64;
const JOINED: usize = 4;
const FILTERS: usize = 512;
const EPSILON: f32 = 1e-6;

/// `[files, kinds]`: how likely each file is of each kind, from `[files, tokens]`. Weights come by the ends of their
/// names, and by their shapes.
pub fn answers<'b, E>(
    tokens: Tensor<'b, u32>,
    weight: impl Fn(&str, &[usize]) -> Result<Tensor<'b, f32>, E>,
) -> Result<Tensor<'b, f32>, E> {
    let columns = TOKENS / JOINED;
    // Normalised along the axis after that of the files.
    let normed = |x: Tensor<'b, f32>, layer: usize, shape: &[usize]| {
        let factor = weight(&format!("LayerNorm_{layer}/Reshape_2:0"), shape)?;
        let bias = weight(&format!("LayerNorm_{layer}/Reshape_3:0"), shape)?;
        Ok(x.layer_norm(1, EPSILON) * factor + bias)
    };
    let count = tokens.shape().map_or(0, |shape| shape[0]);
    let table = weight("jax2tf_get_logits_/Const:0", &[257, WIDTH])?;
    let bias = weight("Dense_0/Reshape:0", &[WIDTH])?;
    let x = (table.embedding(tokens) + bias).gelu_tanh();
    let x = x.reshape([count, columns, JOINED * WIDTH]);
    let x = normed(x, 0, &[columns, 1])?.transpose();
    let filters = weight("Conv_0/transpose_3:0", &[FILTERS, JOINED * WIDTH, 5])?;
    let bias = weight("const_fold_opt__209", &[FILTERS])?;
    let x = x.conv1d(filters, bias, Conv1d::default()).gelu_tanh();
    let x = normed(x.amax(-1), 1, &[FILTERS])?;
    let w = weight("jax2tf_get_logits_/Const_24:0", &[FILTERS, KINDS])?;
    let bias = weight("Dense_1/Reshape:0", &[KINDS])?;
    Ok(x.linear(w, bias).softmax(-1))
}
