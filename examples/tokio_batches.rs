//! Many batches at once: 64 tokio tasks share one device, each with a graph of its own size, and
//! each checks its result against a plain loop.

use std::time::Instant;

use onetrip::{Device, GpuCommandBatch, Result};
use tokio::task::JoinSet;

const TASKS: usize = 64;
const INPUTS: usize = 16;
const OUTPUTS: usize = 8;
/// The error allowed in a sum of [`INPUTS`] products of numbers below 1 in size.
const TOLERANCE: f64 = 1e-5;

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto().await?;
    println!("{TASKS} tasks share {}", device.info());

    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let device = device.clone();
        tasks.spawn(async move { layer(&device, task).await });
    }
    let mut worst = 0.0_f64;
    while let Some(error) = tasks.join_next().await {
        worst = worst.max(error??);
    }
    let elapsed = start.elapsed();

    println!("tokio_batches: {TASKS} batches in {elapsed:.1?}, max |error| {worst:.1e}");
    // Written so that a NaN fails too.
    if worst <= TOLERANCE { Ok(()) } else { Err("a result is wrong".into()) }
}

/// relu(x·W + b) over `task + 1` rows; returns the greatest error against a loop in `f64`.
async fn layer(device: &Device, task: usize) -> Result<f64> {
    let rows = task + 1;
    let x = numbers(rows * INPUTS, task);
    let w = numbers(INPUTS * OUTPUTS, task + 1);
    let b = numbers(OUTPUTS, task + 2);

    let batch = GpuCommandBatch::new(device);
    let x_id = batch.upload_shaped(&x, [rows, INPUTS]);
    let w_id = batch.upload_shaped(&w, [INPUTS, OUTPUTS]);
    let b_id = batch.upload(&b);
    let y = batch.linear(x_id, w_id, b_id).relu();
    batch.execute().await?;
    let y = batch.read(y).await?;

    let expected = (0..rows * OUTPUTS).map(|index| {
        let (row, column) = (index / OUTPUTS, index % OUTPUTS);
        let products = (0..INPUTS)
            .map(|k| f64::from(x[row * INPUTS + k]) * f64::from(w[k * OUTPUTS + column]));
        (products.sum::<f64>() + f64::from(b[column])).max(0.0)
    });
    let errors = y.iter().zip(expected).map(|(&y, expected)| (f64::from(y) - expected).abs());
    let missing = if y.len() == rows * OUTPUTS { 0.0 } else { f64::INFINITY };
    // `f64::max` drops NaN, so a NaN must become an infinite error first.
    Ok(errors.map(|e| if e.is_nan() { f64::INFINITY } else { e }).fold(missing, f64::max))
}

/// `n` numbers in −½ … ½ that differ from task to task.
fn numbers(n: usize, seed: usize) -> Vec<f32> {
    let hash = |i: usize| ((i + 7919 * seed) as u32).wrapping_mul(2_654_435_761);
    (0..n).map(|i| hash(i) as f32 / u32::MAX as f32 - 0.5).collect()
}
