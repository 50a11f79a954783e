//! The plan of a small classifier: the plan as text, then the recorded graph as DOT
//! (`cargo run --example explain | sed -n '/^digraph/,$p' | dot -Tsvg > graph.svg`).

use onetrip::{Device, GpuCommandBatch, Result, Tensor};

const ROWS: usize = 32;
const LAYERS: [usize; 4] = [64, 128, 64, 10];

#[tokio::main]
async fn main() -> Result<()> {
    let device = Device::auto().await?;
    let batch = GpuCommandBatch::new(&device);
    let mut x = batch.upload_shaped(&ramp(ROWS * LAYERS[0]), [ROWS, LAYERS[0]]);
    for (layer, sizes) in LAYERS.windows(2).enumerate() {
        if layer > 0 {
            x = x.relu();
        }
        x = dense(x, [sizes[0], sizes[1]]);
    }
    batch.outputs((x.softmax(1), x.argmax(1)));

    println!("{}", batch.explain()?);
    println!("{}", batch.to_dot());
    Ok(())
}

/// x·w + b with made-up numbers.
fn dense(x: Tensor<'_, f32>, shape: [usize; 2]) -> Tensor<'_, f32> {
    let batch = x.batch();
    let w = batch.upload_shaped(&ramp(shape[0] * shape[1]), shape);
    x.linear(w, batch.upload(&ramp(shape[1])))
}

/// `n` numbers from −½ to ½.
fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 / n as f32 - 0.5).collect()
}
