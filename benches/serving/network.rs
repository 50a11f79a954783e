//! A network of three layers, and its weights.

use onetrip::{BufferId, Device, GpuCommandBatch, Program, Result};

/// Rows of a run.
pub const ROWS: usize = 64;
/// Inputs and outputs of each layer.
pub const LAYERS: [[usize; 2]; 3] = [[784, 512], [512, 256], [256, 10]];

/// Numbers in (−1, 1).
pub fn numbers(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 37 + seed * 101 + 11) % 1009) as f32 / 505.0 - 1.0).collect()
}

/// Matrix and bias of a layer.
pub fn weights(layer: usize) -> [Vec<f32>; 2] {
    let [inner, outer] = LAYERS[layer];
    let matrix = numbers(layer, inner * outer).iter().map(|w| w / 16.0).collect();
    [matrix, numbers(layer + 7, outer)]
}

/// The network with its weights on the device: program, input, output.
pub async fn compile(device: &Device) -> Result<(Program, BufferId<f32>, BufferId<f32>)> {
    let batch = GpuCommandBatch::new(device);
    let x = batch.input::<f32>("x", [ROWS, LAYERS[0][0]]);
    let mut y = x;
    for (layer, [inner, outer]) in LAYERS.into_iter().enumerate() {
        let [matrix, bias] = weights(layer);
        let matrix = batch.bind(&device.resident(&matrix, [inner, outer])?);
        let bias = batch.bind(&device.resident(&bias, outer)?);
        y = y.linear(matrix, bias);
        if layer + 1 < LAYERS.len() {
            y = y.relu();
        }
    }
    Ok((batch.compile().await?, x.id(), y.id()))
}
