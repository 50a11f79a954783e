//! The gain of batching: the same work as one batch and as one call per operation, in time, round
//! trips and bytes moved. `cargo bench --bench batched_vs_per_op` measures it in depth.

#[path = "../common/timing.rs"]
mod timing;
#[path = "../common/workload.rs"]
mod workload;

use std::error::Error;
use std::time::Duration;

use onetrip::Device;
use timing::{Budget, median, milliseconds};
use workload::{Traffic, Work};

const BUDGET: Budget = Budget { least: 5, most: 200, time: Duration::from_millis(200) };

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::auto().await?;
    println!("Medians, batched → per op, on {}.\n", device.info());
    println!(
        "{:<56} {:>10} {:>10} {:>7} {:>12} {:>17}",
        "", "batched", "per op", "gain", "round trips", "MB moved"
    );
    for elements in [1_000, 100_000, 1_000_000] {
        for ops in [1, 4, 16] {
            report(&device, &Work::chain(ops, elements)).await?;
        }
    }
    for (rows, inputs, outputs) in [(64, 784, 128), (256, 512, 512)] {
        report(&device, &Work::layer(rows, inputs, outputs)).await?;
    }
    Ok(())
}

async fn report(device: &Device, work: &Work) -> Result<(), Box<dyn Error>> {
    let (batched, stats) = work.batched_counted(device).await?;
    let per_op = work.per_op(device).await?;
    if !agree(&batched, &per_op) {
        return Err(format!("{}: batched and per-op results differ", work.name).into());
    }

    let batched = median(BUDGET, async || work.batched(device).await.map(drop)).await?;
    let per_op = median(BUDGET, async || work.per_op(device).await.map(drop)).await?;
    let (few, many) = (Traffic::from(&stats), work.per_op_traffic());
    println!(
        "{:<56} {:>7} ms {:>7} ms {:>6.1}× {:>5} → {:>4} {:>7.2} → {:>7.2}",
        format!("{}, {} elements", work.name, work.elements()),
        milliseconds(batched),
        milliseconds(per_op),
        per_op.as_secs_f64() / batched.as_secs_f64(),
        few.round_trips,
        many.round_trips,
        few.bytes as f64 / 1e6,
        many.bytes as f64 / 1e6,
    );
    Ok(())
}

/// Returns true if two results are equal but for rounding. Fusion may keep more digits than a call per
/// operation does, never fewer.
fn agree(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + b.abs()))
}
