//! A service in small: many tasks share one program, which serves requests of any number of rows. Each request has a
//! deadline, all have one memory budget, and runs outlive the loss of a GPU.
//!
//! `cargo run --release --example service`

use std::collections::BTreeMap;
use std::time::Duration;

use onetrip::prelude::*;
use onetrip::{DeviceError, Program, Recovery, RunError};
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TASKS: usize = 16;
const REQUESTS: usize = 50;
const FEATURES: usize = 12;
const CLASSES: usize = 3;
/// The rows that the program is recorded with, which are not those of a request.
const RECORDED: usize = 8;
/// Every so many requests, a client forgets a number.
const SHORT: usize = 10;
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
    let x = batch.input::<f32>("features", [RECORDED, FEATURES]);
    let scores = x.matmul(&weights).softmax(1);
    // Ids borrow nothing, so that tasks can hold them.
    let (x, scores) = (x.id(), scores.id());
    let program = batch.compile().await?;
    // An operation that mixes rows is an error here, and not in the first request. No request waits for plans either.
    program.rows()?.warm_up().await?;

    let mut tasks = JoinSet::new();
    for client in 0..TASKS {
        let program = program.clone();
        tasks.spawn(async move { requests(&program, x, scores, client).await });
    }
    let mut answers = BTreeMap::<u16, usize>::new();
    while let Some(task) = tasks.join_next().await {
        for status in task?? {
            *answers.entry(status).or_default() += 1;
        }
    }
    println!("{}", device.metrics());
    let count = |status| answers.get(&status).copied().unwrap_or_default();
    let [good, bad, late] = [200, 400, 503].map(count);
    println!("service: {good} requests answered, {bad} refused, {late} late, by {TASKS} tasks");
    if bad == TASKS * REQUESTS / SHORT && good + bad + late == TASKS * REQUESTS {
        Ok(())
    } else {
        Err(format!("the statuses of {} requests are {answers:?}", TASKS * REQUESTS).into())
    }
}

/// The requests of one client, and the status of each answer.
async fn requests(
    program: &Program,
    x: BufferId<f32>,
    scores: BufferId<f32>,
    client: usize,
) -> Result<Vec<u16>, Failure> {
    let mut statuses = Vec::with_capacity(REQUESTS);
    for request in 0..REQUESTS {
        let rows = 1 + (client + request) % 20;
        let mut features = numbers(rows * FEATURES, client * REQUESTS + request);
        if request % SHORT == 0 {
            features.pop();
        }
        statuses.push(match program.run_rows_within(DEADLINE, [(x, &features)]).await {
            Ok(outputs) => {
                let scores = outputs.read(scores).await?;
                let sums = scores.chunks(CLASSES).map(|row| row.iter().sum::<f32>());
                let wrong = sums.clone().find(|sum| (sum - 1.0).abs() > 1e-5);
                if wrong.is_some() || sums.len() != rows {
                    return Err(format!("{} rows, one with the sum {wrong:?}", sums.len()).into());
                }
                200
            }
            Err(error) => status(&error),
        });
    }
    Ok(statuses)
}

/// The status of an answer over HTTP: the request is wrong, the service cannot serve it now, or it has a fault.
fn status(error: &Error) -> u16 {
    match error {
        Error::Data(_) | Error::Rows(_) | Error::Fault(_) => 400,
        Error::Run(RunError::OverBudget { .. }) => 413,
        Error::Device(DeviceError::Panicked { .. } | DeviceError::Kernel { .. }) => 500,
        Error::Run(RunError::Deadline { .. } | RunError::Cancelled) | Error::Device(_) => 503,
        _ => 500,
    }
}

/// Numbers in −0.5..0.5.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 31 + seed * 17 + 7) % 101) as f32 / 101.0 - 0.5).collect()
}
