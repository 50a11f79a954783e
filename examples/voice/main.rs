//! Voice activity: two seconds of sound go through the network of silero-vad, convolutions and an LSTM over 59 windows,
//! in one graph and one trip. Beside its answers stand those of the package's network, computed in `f64`.
//!
//! Fails where an answer is off by more than 10⁻³.

#[path = "../common/tensors.rs"]
mod tensors;

use std::error::Error;

use onetrip::{CellWeights, Conv1d, Device, GpuCommandBatch, Recurrence, Tensor};
use tensors::Tensors;

/// Samples of a window, at 16 kHz; what it hears of the one before; and what it hears of its own end in a mirror.
const WINDOW: usize = 512;
const CONTEXT: usize = 64;
const MIRROR: usize = 64;
/// Samples and frequencies of a short spectrum.
const SPECTRUM: usize = 256;
const FREQUENCIES: usize = SPECTRUM / 2 + 1;
const TOLERANCE: f32 = 1e-3;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let recording = Tensors::load("voice_expected.safetensors")?;
    let (sound, _) = recording.get("sound")?;
    let (expected, _) = recording.get("probabilities")?;
    let model = Tensors::load("silero_vad_16k.safetensors")?;

    let device = Device::auto().await?;
    let batch = GpuCommandBatch::new(&device);
    let network = Network { batch: &batch, model: &model };
    let heard = network.windows(&sound);
    let features = network.features(heard)?;
    let voice = network.voice(features)?;
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

struct Network<'a> {
    batch: &'a GpuCommandBatch,
    model: &'a Tensors,
}

impl<'a> Network<'a> {
    /// `[windows, 1, samples]`: what each window hears.
    fn windows(&self, sound: &[f32]) -> Tensor<'a, f32> {
        let b = self.batch;
        let count = sound.len() / WINDOW;
        let own = b.upload_shaped(&sound[..count * WINDOW], [count, WINDOW]);
        let silence = b.full([1, CONTEXT], 0.0);
        let before = b.slice(own, [0..count - 1, WINDOW - CONTEXT..WINDOW]);
        let before = b.concat(&[silence, before], 0);
        // The last sample is not mirrored.
        let mirror = b.slice(own, [(0..count, 1), (WINDOW - 1 - MIRROR..WINDOW - 1, -1)]);
        b.concat(&[before, own, mirror], 1).unsqueeze(1)
    }

    /// `[windows, 1, features]`, from the sizes of four short spectra.
    fn features(&self, heard: Tensor<'a, f32>) -> Result<Tensor<'a, f32>, Box<dyn Error>> {
        let filters = self.tensor("stft_conv.weight")?;
        let hop = Conv1d { stride: [SPECTRUM / 2], ..Conv1d::default() };
        let waves = heard.conv1d(filters, None, hop);
        let shape = waves.shape().ok_or("the sound is too short")?;
        let part = |first: usize| {
            let ranges = [(0..shape[0], 1), (first..first + FREQUENCIES, 1), (0..shape[2], 1)];
            waves.slice(ranges).square()
        };
        let mut x = (part(0) + part(FREQUENCIES)).sqrt();
        for (layer, stride) in [(1, 1), (2, 2), (3, 2), (4, 1)] {
            let w = self.tensor(&format!("conv{layer}.weight"))?;
            let bias = self.tensor(&format!("conv{layer}.bias"))?;
            let slide = Conv1d { stride: [stride], padding: [(1, 1)], ..Conv1d::default() };
            x = x.conv1d(w, bias, slide).relu();
        }
        Ok(x.transpose())
    }

    /// The probability of each window, after those before it.
    fn voice(&self, features: Tensor<'a, f32>) -> Result<Tensor<'a, f32>, Box<dyn Error>> {
        let part = |name: &str| self.tensor(&format!("lstm_cell.{name}"));
        let cell = CellWeights::new(self.batch, part("weight_ih")?, part("weight_hh")?)
            .with_bias(self.batch, [part("bias_ih")?, part("bias_hh")?]);
        let (w, bias) = (self.tensor("final_conv.weight")?, self.tensor("final_conv.bias")?);
        let (states, _) = self.batch.lstm(features, &[cell], None, Recurrence::default());
        Ok(states.relu().linear(w.squeeze(0), bias).sigmoid())
    }

    fn tensor(&self, name: &str) -> Result<Tensor<'a, f32>, Box<dyn Error>> {
        let (data, shape) = self.model.get(name)?;
        Ok(self.batch.upload_shaped(&data, shape))
    }
}
