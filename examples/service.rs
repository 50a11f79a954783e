//! A service in small: one compiled program, shared by many tasks, with a deadline for each request, a memory budget for
//! all of them, and runs that outlive the loss of a GPU.
//!
//! `cargo run --release --example service`

use std::time::Duration;

use onetrip::prelude::*;
use onetrip::{Program, Recovery, RunError};
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TASKS: usize = 16;
const REQUESTS: usize = 50;
const FEATURES: usize = 12;
const CLASSES: usize = 3;
/// Longer than any run takes here, the first compilation of a software GPU included.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let device = Device::builder().memory_budget(64 << 20).recovery(Recovery::Cpu).auto().await?;
    device.on_lost(|loss| eprintln!("{loss}"));

    // Weights stay on the device. A copy on the host outlives a lost GPU.
    let weights = device.resident(&numbers(FEATURES * CLASSES, 1), [FEATURES, CLASSES])?;
    weights.keep_host_copy().await?;
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("features", [1, FEATURES]);
    let scores = x.matmul(&weights).softmax(1);
    // Ids borrow nothing, so that tasks can hold them.
    let (x, scores) = (x.id(), scores.id());
    let program = batch.compile().await?;

    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let program = program.clone();
        tasks.spawn(async move { requests(&program, x, scores, task).await });
    }
    let (mut answered, mut late) = (0, 0);
    while let Some(task) = tasks.join_next().await {
        let (in_time, missed) = task??;
        answered += in_time;
        late += missed;
    }
    println!("{}", device.metrics());
    println!("service: {answered} requests answered, {late} late, by {TASKS} tasks");
    if answered + late == TASKS * REQUESTS { Ok(()) } else { Err("a request was lost".into()) }
}

/// The requests of one client: how many were answered, and how many missed their deadline.
async fn requests(
    program: &Program,
    x: BufferId<f32>,
    scores: BufferId<f32>,
    client: usize,
) -> Result<(usize, usize), Failure> {
    let (mut answered, mut late) = (0, 0);
    for request in 0..REQUESTS {
        let features = numbers(FEATURES, client * REQUESTS + request);
        match program.run_within(DEADLINE, [(x, &features)]).await {
            Ok(outputs) => {
                let sum: f32 = outputs.read(scores).await?.iter().sum();
                if (sum - 1.0).abs() > 1e-5 {
                    return Err(format!("the scores of a request add up to {sum}").into());
                }
                answered += 1;
            }
            Err(Error::Run(RunError::Deadline { .. })) => late += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((answered, late))
}

/// Numbers in −0.5..0.5.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 31 + seed * 17 + 7) % 101) as f32 / 101.0 - 0.5).collect()
}
