//! The plan of a small classifier: the plan as text, then the recorded graph as DOT
//! (`cargo run --example explain | sed -n '/^digraph/,$p' | dot -Tsvg > graph.svg`).
//!
//! `--html plan.html` writes a page with the graph, its kernels, times, memory and transfers, and `--svg graph.svg` the
//! graph alone. `--profile profile.html` runs the plan, and writes the page with the measured times.

#[path = "common/flags.rs"]
mod flags;

use std::error::Error;
use std::path::PathBuf;

use onetrip::{Device, GpuCommandBatch, Tensor};
use pico_args::Arguments;

const ROWS: usize = 32;
const LAYERS: [usize; 4] = [64, 128, 64, 10];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = Arguments::from_env();
    flags::help(&mut arguments, include_str!("explain.rs"));
    let mut file = |name| arguments.opt_value_from_str::<_, PathBuf>(name);
    let (html, svg, profile) = (file("--html")?, file("--svg")?, file("--profile")?);
    flags::nothing_else(arguments)?;
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

    let plan = batch.explain()?;
    println!("{plan}");
    println!("{}", batch.to_dot());
    if let Some(html) = html {
        std::fs::write(html, plan.to_html())?;
    }
    if let Some(svg) = svg {
        std::fs::write(svg, plan.to_svg())?;
    }
    if let Some(profile) = profile {
        let program = batch.compile().await?;
        // The first run compiles and allocates.
        program.run(()).await?;
        std::fs::write(profile, program.profile(()).await?.to_html())?;
    }
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
