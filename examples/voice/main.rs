//! Voice activity: two seconds of sound go through the network of silero-vad, convolutions and an LSTM over 59 windows,
//! in one graph and one trip. Beside its answers stand those of the package's network, computed in `f64`.
//!
//! Fails where an answer is off by more than 10⁻³.

mod network;
#[path = "../common/tensors.rs"]
mod tensors;

use std::error::Error;

use onetrip::{Device, GpuCommandBatch, Tensor};
use tensors::Tensors;

/// Samples of a window, at 16 kHz, and those that it hears of the one before.
const WINDOW: usize = 512;
const CONTEXT: usize = 64;
const TOLERANCE: f32 = 1e-3;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let recording = Tensors::load("voice_expected.safetensors")?;
    let (sound, _) = recording.get("sound")?;
    let (expected, _) = recording.get("probabilities")?;
    let model = Tensors::load("silero_vad_16k.safetensors")?;

    let device = Device::auto().await?;
    let batch = GpuCommandBatch::new(&device);
    let voice = network::probabilities(windows(&batch, &sound), |name| {
        let (data, shape) = model.get(name)?;
        Ok::<_, Box<dyn Error>>(batch.upload_shaped(data, shape))
    })?;
    println!("{}, {} kernels", device.info(), batch.explain()?.kernels().len());
    if let Some(why) = &device.info().fallback {
        println!("on the CPU: {why}");
    }
    batch.execute().await?;
    let voice = batch.read(voice).await?;

    for (window, (got, want)) in voice.iter().zip(&expected).enumerate() {
        let bar = "#".repeat((got * 40.0).round() as usize);
        println!("{:4} ms  {got:.3} (f64 {want:.3})  {bar}", window * WINDOW * 1000 / 16_000);
    }
    let differences = voice.iter().zip(&expected).map(|(got, want)| (got - want).abs());
    let same = voice.len() == expected.len() && !voice.iter().any(|p| p.is_nan());
    let error = if same { differences.fold(0.0, f32::max) } else { f32::INFINITY };
    let stats = batch.stats();
    println!(
        "voice: {} of {} windows, max |error| {error:.1e}, backend {}, uploads {}, submits {}, downloads {}",
        voice.iter().filter(|&&p| p > 0.5).count(),
        voice.len(),
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

/// `[windows, samples]`: what each window hears.
fn windows<'b>(b: &'b GpuCommandBatch, sound: &[f32]) -> Tensor<'b, f32> {
    let count = sound.len() / WINDOW;
    let own = b.upload_shaped(&sound[..count * WINDOW], [count, WINDOW]);
    let silence = b.full([1, CONTEXT], 0.0);
    let before = b.slice(own, [0..count - 1, WINDOW - CONTEXT..WINDOW]);
    let before = b.concat([silence, before], 0);
    b.concat([before, own], 1)
}
