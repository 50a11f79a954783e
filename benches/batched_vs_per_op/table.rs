//! Batched against per-op as a markdown table of medians.

use std::time::Duration;

use onetrip::{Device, Result};

use crate::timing::{Budget, median, milliseconds};
use crate::workload::{Traffic, Work};
use crate::{CHAIN_ELEMENTS, CHAIN_OPS, LAYERS};

const BUDGET: Budget = Budget { least: 3, most: 1000, time: Duration::from_millis(300) };

pub async fn print(devices: &[Device]) -> Result<()> {
    for device in devices {
        println!("### {}\n", device.info());
        println!("| work | elements | batched | per op | gain | round trips | MB moved |");
        println!("|---|--:|--:|--:|--:|--:|--:|");
        for elements in CHAIN_ELEMENTS {
            for ops in CHAIN_OPS {
                row(device, &Work::chain(ops, elements)).await?;
            }
        }
        for [rows, inputs, outputs] in LAYERS {
            row(device, &Work::layer(rows, inputs, outputs)).await?;
        }
        println!();
    }
    Ok(())
}

async fn row(device: &Device, work: &Work) -> Result<()> {
    let batched = median(BUDGET, async || work.batched(device).await.map(drop)).await?;
    let per_op = median(BUDGET, async || work.per_op(device).await.map(drop)).await?;
    let (_, stats) = work.batched_counted(device).await?;
    let (few, many) = (Traffic::from(&stats), work.per_op_traffic());
    println!(
        "| {} | {:.0e} | {} ms | {} ms | {:.1}× | {} / {} | {:.3} / {:.3} |",
        work.name,
        work.elements() as f64,
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
