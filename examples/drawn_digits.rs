//! The network of the demo page, which reads drawn digits: recorded, tested on the data's rows, and saved as a program.
//! `cargo run --release --features safetensors --example drawn_digits -- [WEIGHTS PROGRAM]`
//!
//! Without arguments it tests the program of the page, whose weights have names. `web/demo/train.py` makes weights.

#[path = "digits/dataset.rs"]
#[expect(dead_code, reason = "the example `digits` shows more of them")]
mod dataset;
#[path = "common/tensors.rs"]
#[expect(dead_code, reason = "onetrip reads the weights")]
mod tensors;

use std::error::Error;
use std::path::{Path, PathBuf};

use dataset::{Digits, SIDE};
use onetrip::{Conv2d, Device, GpuCommandBatch, Pool2d, Tensor, Weights};

/// Rows of the data that the network must read as their class.
const LEAST_RIGHT: usize = 350;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let weights = arguments.next().unwrap_or_else(|| {
        [env!("CARGO_MANIFEST_DIR"), "web", "demo", "drawn_digits.safetensors"].iter().collect()
    });
    let weights = Weights::read(weights)?;
    let digits = Digits::load()?;
    let right = test(&weights, &digits).await?;
    if let Some(path) = arguments.next() {
        save(&weights, &path).await?;
        println!("saved {} bytes", std::fs::metadata(path)?.len());
    }
    println!("drawn digits: {right} of {} right", digits.len());
    if right < LEAST_RIGHT {
        return Err(format!("at least {LEAST_RIGHT} rows should be right").into());
    }
    Ok(())
}

/// The number of rows of the data that the network reads as their class.
async fn test(weights: &Weights, digits: &Digits) -> Result<usize, Box<dyn Error>> {
    let device = Device::auto().await?;
    let batch = GpuCommandBatch::new(&device);
    let pixels = batch.upload_shaped(&digits.pixels, [digits.len(), SIDE * SIDE]);
    let classes = network(weights, pixels, digits.len())?.argmax(1);
    batch.execute().await?;
    let found = batch.read(classes).await?;
    Ok(found.iter().zip(&digits.classes).filter(|(found, class)| found == class).count())
}

/// Saves the network for one picture: the input `pixels`, the output `confidence`.
async fn save(weights: &Weights, path: &Path) -> Result<(), Box<dyn Error>> {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let pixels = batch.input::<f32>("pixels", [1, SIDE * SIDE]);
    batch.outputs((network(weights, pixels, 1)?.softmax(1).named("confidence"),));
    Ok(batch.save(path).await?)
}

/// The logits [rows, 10] of pictures [rows, 64].
fn network<'b>(
    weights: &Weights,
    pixels: Tensor<'b, f32>,
    rows: usize,
) -> Result<Tensor<'b, f32>, Box<dyn Error>> {
    let batch = pixels.batch();
    let weight = |name: String| -> Result<Tensor<'b, f32>, Box<dyn Error>> {
        let resident = weights.resident::<f32>(batch.device(), &name)?;
        Ok(batch.bind(&resident).named(&name))
    };
    let layer = |number: usize| -> Result<_, Box<dyn Error>> {
        Ok((weight(format!("w{number}"))?, weight(format!("b{number}"))?))
    };
    let same_size = Conv2d { padding: [(1, 1); 2], ..Conv2d::default() };
    let mut x = pixels.reshape([rows, 1, SIDE, SIDE]);
    for number in 1..=2 {
        let (w, b) = layer(number)?;
        x = x.conv2d(w, b, same_size).relu();
    }
    let halved = Pool2d { stride: Some([2, 2]), ..Pool2d::new([2, 2]) };
    let features = x.max_pool2d(halved).reshape([rows, 32 * SIDE / 2 * SIDE / 2]);
    let (w, b) = layer(3)?;
    let hidden = features.linear(w, b).relu();
    let (w, b) = layer(4)?;
    Ok(hidden.linear(w, b))
}
