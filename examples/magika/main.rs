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

mod network;
mod onnx;
#[path = "../common/tensors.rs"]
mod tensors;

use std::error::Error;

use network::{KINDS, TOKENS};
use onetrip::{Device, GpuCommandBatch};
use onnx::Weights;
use safetensors::SafeTensors;
use tensors::Tensors;

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
    let answers = network::answers(tokens, |name, shape| {
        let data = weights.get(name, shape.iter().product())?;
        Ok::<_, Box<dyn Error>>(batch.upload_shaped(data, shape))
    })?;
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
