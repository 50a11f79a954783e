//! What kind of file is it? A few small files go through the convolutional network of magika in one graph and one trip.
//! Beside its answers stand the package's own, by ONNX Runtime.
//!
//! The weights (3.2 MB, Apache-2.0) are not part of this repository. They are in the package:
//!
//! ```sh
//! pip download --no-deps magika && unzip magika-*.whl 'magika/models/*'
//! cargo run --release --example magika -- magika/models/standard_v3_3/model.onnx
//! ```
//!
//! Without a path it says so and ends. Fails where an answer is off by more than 10⁻³.

mod onnx;
#[path = "../common/tensors.rs"]
mod tensors;

use std::error::Error;

use onetrip::{Conv1d, Device, GpuCommandBatch, Tensor};
use onnx::Weights;
use safetensors::SafeTensors;
use tensors::Tensors;

/// Tokens of a file: the bytes of its start and its end, and 256 where there are none.
const TOKENS: usize = 2048;
/// The width of embedded tokens, and the number of tokens in one column.
const WIDTH: usize = 64;
const JOINED: usize = 4;
const FILTERS: usize = 512;
const KINDS: usize = 214;
const EPSILON: f32 = 1e-6;
const TOLERANCE: f32 = 1e-3;
const HOW: &str = "magika: skipped, no weights; get them by
  pip download --no-deps magika && unzip magika-*.whl 'magika/models/*'
and give the path of model.onnx";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args().nth(1) else {
        println!("{HOW}");
        return Ok(());
    };
    let weights = Weights::load(path.as_ref())?;
    let file = Tensors::load("magika_expected.safetensors")?;
    let (tokens, _) = file.get("tokens")?;
    let (expected, _) = file.get("answers")?;

    let device = Device::auto().await?;
    let batch = GpuCommandBatch::new(&device);
    let tokens: Vec<u32> = tokens.iter().map(|&token| token as u32).collect();
    let count = tokens.len() / TOKENS;
    let tokens = batch.upload_shaped(&tokens, [count, TOKENS]);
    let answers = Network { batch: &batch, weights: &weights }.answers(tokens, count)?;
    println!("{}, {} kernels", device.info(), batch.explain()?.kernels().len());
    batch.execute().await?;
    let answers = batch.read(answers).await?;

    let (_, metadata) = SafeTensors::read_metadata(&file.0)?;
    let metadata = metadata.metadata().as_ref().ok_or("names are missing")?;
    let names =
        |key: &str| metadata.get(key).map(|names| names.split(' ')).ok_or("names are missing");
    let labels: Vec<&str> = names("labels")?.collect();
    let mut right = 0;
    for ((name, got), want) in
        names("files")?.zip(answers.chunks(KINDS)).zip(expected.chunks(KINDS))
    {
        let (got_kind, score) = greatest(got);
        let (kind, wanted) = greatest(want);
        right += usize::from(got_kind == kind);
        println!(
            "{name:14} {} {score:.4} (magika: {} {wanted:.4})",
            labels[got_kind], labels[kind]
        );
    }
    let same = answers.len() == expected.len() && !answers.iter().any(|p| p.is_nan());
    let differences = answers.iter().zip(&expected).map(|(got, want)| (got - want).abs());
    let error = if same { differences.fold(0.0, f32::max) } else { f32::INFINITY };
    let stats = batch.stats();
    println!(
        "magika: {right} of {count} files, max |error| {error:.1e}, backend {}, uploads {}, submits {}, downloads {}",
        stats.backend.ok_or("the batch did not run")?,
        stats.uploads,
        stats.submits,
        stats.downloads,
    );
    if error > TOLERANCE {
        return Err(format!("the answers are off by {error:e}, and may be by {TOLERANCE:e}").into());
    }
    Ok(())
}

/// The likeliest kind, and how likely it is.
fn greatest(answers: &[f32]) -> (usize, f32) {
    let all = answers.iter().copied().enumerate();
    all.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

struct Network<'a> {
    batch: &'a GpuCommandBatch,
    weights: &'a Weights,
}

impl<'a> Network<'a> {
    /// `[files, kinds]`: how likely each file is of each kind.
    fn answers(
        &self,
        tokens: Tensor<'a, u32>,
        count: usize,
    ) -> Result<Tensor<'a, f32>, Box<dyn Error>> {
        let columns = TOKENS / JOINED;
        let table = self.tensor("jax2tf_get_logits_/Const:0", [257, WIDTH])?;
        let bias = self.tensor("Dense_0/Reshape:0", [WIDTH])?;
        let x = (table.embedding(tokens) + bias).gelu_tanh();
        let x = x.reshape([count, columns, JOINED * WIDTH]);
        let x = self.normed(x, 0, [columns, 1])?.transpose();
        let filters = self.tensor("Conv_0/transpose_3:0", [FILTERS, JOINED * WIDTH, 5])?;
        let bias = self.tensor("const_fold_opt__209", [FILTERS])?;
        let x = x.conv1d(filters, bias, Conv1d::default()).gelu_tanh();
        let x = self.normed(x.amax(-1), 1, [FILTERS])?;
        let w = self.tensor("jax2tf_get_logits_/Const_24:0", [FILTERS, KINDS])?;
        let bias = self.tensor("Dense_1/Reshape:0", [KINDS])?;
        Ok(x.linear(w, bias).softmax(-1))
    }

    /// Normalised along the axis after that of the files.
    fn normed<const D: usize>(
        &self,
        x: Tensor<'a, f32>,
        layer: usize,
        shape: [usize; D],
    ) -> Result<Tensor<'a, f32>, Box<dyn Error>> {
        let weight = self.tensor(&format!("LayerNorm_{layer}/Reshape_2:0"), shape)?;
        let bias = self.tensor(&format!("LayerNorm_{layer}/Reshape_3:0"), shape)?;
        Ok(x.layer_norm(1, EPSILON) * weight + bias)
    }

    /// A tensor of the model, by the end of its name.
    fn tensor<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
    ) -> Result<Tensor<'a, f32>, Box<dyn Error>> {
        let data = self.weights.get(name, shape.iter().product())?;
        Ok(self.batch.upload_shaped(&data, shape))
    }
}
