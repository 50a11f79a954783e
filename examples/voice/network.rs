//! The network of silero-vad for 16 kHz, with the package's names of its weights.

use onetrip::{CellWeights, Conv1d, Recurrence, Tensor};

/// Samples that a window hears of its own end in a mirror.
const MIRROR: usize = 64;
/// Samples and frequencies of a short spectrum.
const SPECTRUM: usize = 256;
const FREQUENCIES: usize = SPECTRUM / 2 + 1;

/// `[windows]`: the probability of a voice in each window, after those before it, from `[windows, samples]`: the end of
/// the window before, and the window.
pub fn probabilities<'b, E>(
    heard: Tensor<'b, f32>,
    weight: impl Fn(&str) -> Result<Tensor<'b, f32>, E>,
) -> Result<Tensor<'b, f32>, E> {
    let x = features(heard, &weight)?;
    let (b, cell) = (x.batch(), |name: &str| weight(&format!("lstm_cell.{name}")));
    let bias = [cell("bias_ih")?, cell("bias_hh")?];
    let cell = CellWeights::with_bias(b, cell("weight_ih")?, cell("weight_hh")?, bias);
    let (states, _) = b.lstm(x, &[cell], None, Recurrence::default());
    let (w, bias) = (weight("final_conv.weight")?, weight("final_conv.bias")?);
    Ok(states.relu().linear(w.squeeze(0), bias).sigmoid())
}

/// `[windows, 1, features]`, from the sizes of four short spectra.
fn features<'b, E>(
    heard: Tensor<'b, f32>,
    weight: &impl Fn(&str) -> Result<Tensor<'b, f32>, E>,
) -> Result<Tensor<'b, f32>, E> {
    // A mistake left no shape, and the run reports it.
    let Some(shape) = heard.shape() else { return Ok(heard) };
    let [count, samples] = [shape[0], shape[1]];
    // The last sample is not mirrored.
    let mirror = heard.slice([(0..count, 1), (samples - 1 - MIRROR..samples - 1, -1)]);
    let heard = heard.batch().concat([heard, mirror], 1).unsqueeze(1);
    let hop = Conv1d { stride: [SPECTRUM / 2], ..Conv1d::default() };
    let waves = heard.conv1d(weight("stft_conv.weight")?, None, hop);
    let Some(shape) = waves.shape() else { return Ok(waves) };
    let part = |first: usize| {
        let ranges = [(0..count, 1), (first..first + FREQUENCIES, 1), (0..shape[2], 1)];
        waves.slice(ranges).square()
    };
    let mut x = (part(0) + part(FREQUENCIES)).sqrt();
    for (layer, stride) in [(1, 1), (2, 2), (3, 2), (4, 1)] {
        let w = weight(&format!("conv{layer}.weight"))?;
        let bias = weight(&format!("conv{layer}.bias"))?;
        let slide = Conv1d { stride: [stride], padding: [(1, 1)], ..Conv1d::default() };
        x = x.conv1d(w, bias, slide).relu();
    }
    Ok(x.transpose())
}
