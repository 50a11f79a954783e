//! A network served to one caller and to many, beside the same in bare wgpu.
//!
//! ```text
//! cargo bench --bench serving
//! ```
//!
//! The MLP 784-512-256-10 with 64 rows and weights on the device, from host memory to host memory. The bare side has
//! kernels, bind groups and buffers made beforehand, one set for each caller, and waits on a thread for each.

mod bare;
mod network;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bare::{Bare, Lane};
use network::{LAYERS, ROWS, compile, numbers};
use onetrip::{Device, GpuCommandBatch, Result};

const CALLERS: usize = 16;
const TIME: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::gpu().await?;
    println!("{}", device.info());
    let x = numbers(5, ROWS * LAYERS[0][0]);
    let bare = Bare::open(&device).await?;
    let lane = Lane::new(&bare)?;
    agree(&device, &lane, &x).await?;

    let engine = one_at_a_time(&device, &x).await?;
    let floor = summary(&times(TIME, || lane.run(&x).map(drop))?);
    println!("one at a time: {engine}\n   bare wgpu:  {floor}");
    println!("anew:          {}", anew(&device).await?);

    let engine = from_many(&device, &x).await?;
    let floor = from_many_threads(&bare, &x)?;
    println!(
        "{CALLERS} callers: {engine:.0} runs/s; bare wgpu {floor:.0}; ratio {:.2}",
        engine / floor
    );
    println!("{:?}", device.pool_stats());
    Ok(())
}

/// Both sides compute the same.
async fn agree(device: &Device, lane: &Lane, x: &[f32]) -> Result<(), Box<dyn Error>> {
    let (program, input, output) = compile(device).await?;
    let ours = program.run([(input, x)]).await?.read(output).await?;
    let bare = lane.run(x)?;
    let worst = ours.iter().zip(&bare).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(ours.len() == bare.len() && worst < 1e-3, "they differ by {worst}");
    Ok(())
}

async fn one_at_a_time(device: &Device, x: &[f32]) -> Result<String> {
    let (program, input, output) = compile(device).await?;
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < TIME {
        let run = Instant::now();
        program.run([(input, x)]).await?.read(output).await?;
        times.push(run.elapsed());
    }
    Ok(summary(&times))
}

/// Three operations on 4 KB, recorded anew each time.
async fn anew(device: &Device) -> Result<String> {
    let data = numbers(3, 1000);
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < TIME {
        let run = Instant::now();
        let batch = GpuCommandBatch::new(device);
        let y = batch.upload(&data).relu().scale(2.0).add_scalar(1.0);
        batch.execute().await?;
        batch.read(y).await?;
        times.push(run.elapsed());
    }
    Ok(summary(&times))
}

/// Runs a second from as many tasks.
async fn from_many(device: &Device, x: &[f32]) -> Result<f64> {
    let (program, input, output) = compile(device).await?;
    let start = Instant::now();
    let tasks = (0..CALLERS).map(|_| {
        let (program, x) = (program.clone(), x.to_vec());
        tokio::spawn(async move {
            let mut runs = 0;
            while start.elapsed() < TIME {
                program.run([(input, &x)]).await?.read(output).await?;
                runs += 1;
            }
            Ok::<u64, onetrip::Error>(runs)
        })
    });
    let mut runs = 0;
    for task in tasks.collect::<Vec<_>>() {
        runs += task.await.expect("a task that does not panic")?;
    }
    Ok(runs as f64 / start.elapsed().as_secs_f64())
}

/// Runs a second from as many threads.
fn from_many_threads(bare: &Arc<Bare>, x: &[f32]) -> Result<f64, Box<dyn Error>> {
    let lanes: Result<Vec<Lane>, _> = (0..CALLERS).map(|_| Lane::new(bare)).collect();
    let (lanes, start) = (lanes?, Instant::now());
    let runs: usize = std::thread::scope(|scope| {
        let run = |lane| {
            move || times(TIME, || Lane::run(lane, x).map(drop)).map_or(0, |times| times.len())
        };
        let threads: Vec<_> = lanes.iter().map(|lane| scope.spawn(run(lane))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    Ok(runs as f64 / start.elapsed().as_secs_f64())
}

/// The times of `run`, again and again.
fn times(
    limit: Duration,
    mut run: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < limit {
        let one = Instant::now();
        run()?;
        times.push(one.elapsed());
    }
    Ok(times)
}

/// Quantiles in milliseconds.
fn summary(times: &[Duration]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |part: usize| sorted[(sorted.len() - 1) * part / 100].as_secs_f64() * 1e3;
    format!("p50 {:.4} p90 {:.4} p99 {:.4} ms ({} runs)", at(50), at(90), at(99), sorted.len())
}
