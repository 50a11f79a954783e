//! The main job: a relu network classifies 360 handwritten digits in one upload, one submit and
//! one download, on a GPU or on the CPU (`ONETRIP_BACKEND=gpu`, `ONETRIP_BACKEND=cpu`).
//!
//! Fails where the accuracy is not what the model's file states, or an output is off by more than
//! 10⁻⁴ from the one computed in `f64`.

mod dataset;
#[path = "../common/flags.rs"]
mod flags;
#[path = "../common/tensors.rs"]
mod tensors;

use std::error::Error;

use dataset::{CLASSES, Digits, PIXELS};
use onetrip::{Device, GpuCommandBatch, Tensor};
use pico_args::Arguments;
use tensors::Tensors;

const TOLERANCE: f32 = 1e-4;
const SHOWN_IN_A_ROW: usize = 4;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = Arguments::from_env();
    flags::help(&mut arguments, include_str!("main.rs"));
    flags::nothing_else(arguments)?;

    let digits = Digits::load()?;
    let model = Tensors::load("digits_mlp.safetensors")?;
    let (expected, _) = Tensors::load("digits_mlp_expected.safetensors")?.get("logits")?;

    let device = Device::auto().await?;
    let batch = GpuCommandBatch::new(&device);
    let x = batch.upload_shaped(&digits.pixels, [digits.len(), PIXELS]);
    let h = dense(&batch, &model, x, 1)?;
    let h = batch.relu(h);
    let h = dense(&batch, &model, h, 2)?;
    let h = batch.relu(h);
    let logits = dense(&batch, &model, h, 3)?;
    let class = batch.argmax(logits, 1);
    let confidence = batch.softmax(logits, 1);
    batch.download(logits);
    batch.download(class);
    batch.download(confidence);

    println!("{}", device.info());
    if let Some(why) = &device.info().fallback {
        println!("on the CPU: {why}");
    }
    println!("\n{}", batch.explain()?);
    batch.execute().await?;
    let logits = batch.read(logits).await?;
    let classes = batch.read(class).await?;
    let confidence = batch.read(confidence).await?;

    show(&digits, &classes, &confidence);
    let right = classes.iter().zip(&digits.classes).filter(|(got, want)| got == want).count();
    let accuracy = format!("{:.6}", right as f64 / digits.len() as f64);
    let error = greatest_difference(&logits, &expected);
    let stats = batch.stats();
    let backend = stats.backend.ok_or("the batch did not run")?;
    println!(
        "digits: accuracy {accuracy} on {} rows, max |error| {error:.1e}, backend {backend}, \
         uploads {}, submits {}, downloads {}",
        digits.len(),
        stats.uploads,
        stats.submits,
        stats.downloads,
    );

    let stated = model.metadata("test_accuracy")?;
    if accuracy != stated {
        return Err(format!("the accuracy is {accuracy}, and should be {stated}").into());
    }
    if error > TOLERANCE {
        return Err(
            format!("the outputs are off by {error:e}, and should be by {TOLERANCE:e}").into()
        );
    }
    Ok(())
}

/// x·w + b of one layer of the model.
fn dense<'b>(
    batch: &'b GpuCommandBatch,
    model: &Tensors,
    x: Tensor<'b, f32>,
    layer: usize,
) -> Result<Tensor<'b, f32>, Box<dyn Error>> {
    let (w, w_shape) = model.get(&format!("w{layer}"))?;
    let (b, b_shape) = model.get(&format!("b{layer}"))?;
    let w = batch.upload_shaped(&w, w_shape);
    let b = batch.upload_shaped(&b, b_shape);
    Ok(batch.linear(x, w, b))
}

/// Prints the first digits, then the first that are taken for another.
fn show(digits: &Digits, classes: &[u32], confidence: &[f32]) {
    let wrong = (0..digits.len()).filter(|&row| classes[row] != digits.classes[row]);
    let first: Vec<usize> = (0..SHOWN_IN_A_ROW).collect();
    let wrong: Vec<usize> = wrong.take(SHOWN_IN_A_ROW).collect();
    for rows in [first, wrong] {
        let mut pictures: Vec<_> = rows.iter().map(|&row| digits.picture(row)).collect();
        loop {
            let line: Vec<String> = pictures.iter_mut().filter_map(Iterator::next).collect();
            if line.is_empty() {
                break;
            }
            println!("{}", line.join("    ").trim_end());
        }
        let captions = rows.iter().map(|&row| {
            let class = classes[row];
            let percent = 100.0 * confidence[row * CLASSES + class as usize];
            let truth = digits.classes[row];
            let verdict = if class == truth { String::new() } else { format!(" for a {truth}") };
            format!("{:<20}", format!("{class}{verdict} ({percent:.1} %)"))
        });
        println!("{}\n", captions.collect::<String>().trim_end());
    }
}

/// The greatest |a − b|; infinite where one is NaN or the lengths differ.
fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return f32::INFINITY;
    }
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.map(|d| if d.is_nan() { f32::INFINITY } else { d }).fold(0.0, f32::max)
}
