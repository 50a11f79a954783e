//! A BERT encoder as PyTorch saves it: names and layout of its tensors, and its formulas.

use onetrip::{
    Attention, AttentionMask, Device, GpuCommandBatch, Resident, Result, Tensor, Weights,
};

const HEADS: usize = 4;
const EPSILON: f32 = 1e-12;

/// The weights, on the device.
pub struct Model {
    words: Resident<f32>,
    positions: Resident<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    mixed: Linear,
    mixed_norm: Norm,
    inner: Linear,
    outer: Linear,
    outer_norm: Norm,
}

struct Linear {
    weight: Resident<f32>,
    bias: Resident<f32>,
}

struct Norm {
    weight: Resident<f32>,
    bias: Resident<f32>,
}

impl Model {
    pub fn load(device: &Device, weights: &Weights) -> Result<Self> {
        let embeddings = weights.prefix("embeddings.");
        let layers = (0..)
            .map(|at| weights.prefix(&format!("encoder.layer.{at}.")))
            .take_while(|layer| !layer.names().is_empty());
        Ok(Self {
            words: embeddings.resident(device, "word_embeddings.weight")?,
            positions: embeddings.resident(device, "position_embeddings.weight")?,
            norm: Norm::load(device, &embeddings.prefix("LayerNorm."))?,
            layers: layers.map(|layer| Layer::load(device, &layer)).collect::<Result<_>>()?,
        })
    }

    /// Embeddings `[sentences, width]` of length 1, from ids `[sentences, words]` and the words that each sentence has.
    pub fn embeddings<'b>(&self, ids: Tensor<'b, i32>, known: Tensor<'b, bool>) -> Tensor<'b, f32> {
        let batch = ids.batch();
        let length = ids.shape().map_or(0, |shape| shape[1]);
        let width = self.words.shape()[1];
        let positions = batch.bind(&self.positions).slice([0..length, 0..width]);
        let x = self.norm.over(batch.embedding(&self.words, ids) + positions);
        let x = self.layers.iter().fold(x, |x, layer| layer.over(x, known));
        let counted = known.cast::<f32>().unsqueeze(-1);
        // A row without a sentence has no words.
        let mean = (x * counted).sum(1) / counted.sum(1).max(1.0);
        mean.l2_normalize(-1, EPSILON)
    }
}

impl Layer {
    fn load(device: &Device, layer: &Weights) -> Result<Self> {
        let linear = |name: &str| Linear::load(device, &layer.prefix(name));
        let norm = |name: &str| Norm::load(device, &layer.prefix(name));
        Ok(Self {
            query: linear("attention.self.query.")?,
            key: linear("attention.self.key.")?,
            value: linear("attention.self.value.")?,
            mixed: linear("attention.output.dense.")?,
            mixed_norm: norm("attention.output.LayerNorm.")?,
            inner: linear("intermediate.dense.")?,
            outer: linear("output.dense.")?,
            outer_norm: norm("output.LayerNorm.")?,
        })
    }

    fn over<'b>(&self, x: Tensor<'b, f32>, known: Tensor<'b, bool>) -> Tensor<'b, f32> {
        let mask = Some(AttentionMask::keys(x.batch(), known));
        let how = Attention { mask, ..Attention::default() };
        let [q, k, v] = [&self.query, &self.key, &self.value].map(|part| heads(part.over(x)));
        let mixed = joined(q.scaled_dot_product_attention(k, v, how));
        let x = self.mixed_norm.over(x + self.mixed.over(mixed));
        let inner = self.inner.over(x).gelu();
        self.outer_norm.over(x + self.outer.over(inner))
    }
}

impl Linear {
    fn load(device: &Device, weights: &Weights) -> Result<Self> {
        let weight = weights.resident_transposed(device, "weight")?;
        Ok(Self { weight, bias: weights.resident(device, "bias")? })
    }

    fn over<'b>(&self, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        x.linear(&self.weight, &self.bias)
    }
}

impl Norm {
    fn load(device: &Device, weights: &Weights) -> Result<Self> {
        let weight = weights.resident(device, "weight")?;
        Ok(Self { weight, bias: weights.resident(device, "bias")? })
    }

    fn over<'b>(&self, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        x.layer_norm_with(&self.weight, &self.bias, -1, EPSILON)
    }
}

/// `[sentences, words, width]` as `[sentences, heads, words, width / heads]`.
fn heads(x: Tensor<'_, f32>) -> Tensor<'_, f32> {
    let Some(shape) = x.shape() else { return x };
    x.reshape([shape[0], shape[1], HEADS, shape[2] / HEADS]).permute([0, 2, 1, 3])
}

/// The opposite of [`heads`].
fn joined(x: Tensor<'_, f32>) -> Tensor<'_, f32> {
    let Some(shape) = x.shape() else { return x };
    x.permute([0, 2, 1, 3]).reshape([shape[0], shape[2], HEADS * shape[3]])
}

/// Records the model for `sentences` of `words` each.
pub fn record(batch: &GpuCommandBatch, model: &Model, [sentences, words]: [usize; 2]) {
    let ids = batch.input::<i32>("ids", [sentences, words]);
    let known = batch.input::<bool>("known", [sentences, words]);
    model.embeddings(ids, known).named("embeddings").download();
}
