//! The costs of the engine: a small round trip and a memory-bound chain beside bare wgpu, recording
//! and planning.

use std::error::Error;
use std::time::{Duration, Instant};

use onetrip::{Device, GpuCommandBatch, Resident, Result, Tensor};

use crate::bare::Floor;
use crate::chain;
use crate::planning;
use crate::timing::{Budget, median};
use crate::workload::numbers;

const SMALL: usize = 1024;
const CHAIN: usize = 64_000_000;
/// As many bytes each way as the chain moves in all, and no power of two: such sizes let two streams
/// meet in the same memory channels.
const COPY_BYTES: u64 = 640_000_000;
const RECORDED_OPS: usize = 10_000;

const QUICK: Budget = Budget { least: 20, most: 5000, time: Duration::from_millis(500) };
const LONG: Budget = Budget { least: 5, most: 100, time: Duration::from_secs(2) };

pub async fn print(device: &Device, floor: Option<&Floor>) -> Result<(), Box<dyn Error>> {
    println!("### {}\n", device.info());
    if device.info().software {
        println!("A software adapter: these are no measures of a GPU.\n");
    }
    small_trip(device, floor).await?;
    resident_chain(device, floor).await?;
    println!("recording: {:.0} ns an operation", record_ns(device));
    let planning = planning::time(device, planning::blocks, drop).await?;
    println!("planning {} operations: {:.2} ms\n", planning::OPS, ms(planning));
    Ok(())
}

/// Three operations on 4 KB, from host memory to host memory.
async fn small_trip(device: &Device, floor: Option<&Floor>) -> Result<(), Box<dyn Error>> {
    let data = numbers(SMALL);
    let again = executed_again(device, &data).await?;
    let anew = median(QUICK, async || recorded_anew(device, &data).await.map(drop)).await?;
    let program = run_as_program(device, &data).await?;
    println!("three operations on 4 KB, batch executed again: {:.4} ms", ms(again));
    println!("three operations on 4 KB, run as a program: {:.4} ms", ms(program));
    println!("three operations on 4 KB, batch recorded anew: {:.4} ms", ms(anew));
    #[cfg(feature = "blocking")]
    println!(
        "three operations on 4 KB, executed again, blocking: {:.4} ms",
        ms(executed_blocking(device, &data).await?)
    );
    let Some(floor) = floor else { return Ok(()) };

    let trip = floor.round_trip(SMALL)?;
    let wanted: Vec<f32> = data.iter().map(|&x| x.max(0.0)).collect();
    if trip.run(&data)? != wanted || trip.run_polling(&data)? != wanted {
        return Err("the bare round trip computes something else".into());
    }
    let bare = median(QUICK, async || trip.run(&data).map(drop)).await?;
    println!("bare wgpu, one dispatch on 4 KB: {:.4} ms", ms(bare));
    let ratio = |time: Duration| time.as_secs_f64() / bare.as_secs_f64();
    println!("times the bare round trip: {:.2} again, {:.2} anew", ratio(again), ratio(anew));
    let polled = median(QUICK, async || trip.run_polling(&data).map(drop)).await?;
    println!("bare wgpu, polled without pause: {:.4} ms", ms(polled));
    let own = |time: Duration| (time.as_secs_f64() - polled.as_secs_f64()) * 1e6;
    println!(
        "beyond that: {:.1} µs again, {:.1} as a program, {:.1} anew",
        own(again),
        own(program),
        own(anew)
    );
    Ok(())
}

fn three_ops(x: Tensor<'_, f32>) -> Tensor<'_, f32> {
    x.scale(2.0).add_scalar(0.25).relu()
}

async fn recorded_anew(device: &Device, data: &[f32]) -> Result<Vec<f32>> {
    let batch = GpuCommandBatch::new(device);
    let x = batch.upload(data);
    let y = three_ops(x);
    batch.execute().await?;
    batch.read(y).await
}

async fn executed_again(device: &Device, data: &[f32]) -> Result<Duration> {
    let batch = GpuCommandBatch::new(device);
    let x = batch.upload(data);
    let y = three_ops(x);
    median(QUICK, async || {
        batch.write(x, data)?;
        batch.execute().await?;
        batch.read(y).await.map(drop)
    })
    .await
}

async fn run_as_program(device: &Device, data: &[f32]) -> Result<Duration> {
    let batch = GpuCommandBatch::new(device);
    let x = batch.upload(data);
    let y = three_ops(x);
    let program = batch.compile().await?;
    median(QUICK, async || program.run([(x, data)]).await?.read(y).await.map(drop)).await
}

#[cfg(feature = "blocking")]
async fn executed_blocking(device: &Device, data: &[f32]) -> Result<Duration> {
    let batch = GpuCommandBatch::new(device);
    let x = batch.upload(data);
    let y = three_ops(x);
    median(QUICK, async || {
        batch.write(x, data)?;
        batch.execute_blocking()?;
        batch.read_blocking(y).map(drop)
    })
    .await
}

/// Eight elementwise operations on four resident operands; the result stays on the device. The
/// time of the same graph on 4 KB, which is all latency, is stated beside, for both sides.
async fn resident_chain(device: &Device, floor: Option<&Floor>) -> Result<(), Box<dyn Error>> {
    let most = floor.map_or(u64::MAX, |floor| floor.binding_bytes / 4);
    let elements = CHAIN.min(usize::try_from(most)?);
    let whole = chain_time(device, elements).await?;
    let latency = chain_time(device, SMALL).await?;
    let bytes = 5 * 4 * elements as u64;
    let chain = Bandwidth { bytes, whole, latency };
    println!("chain of 8 on {elements} resident f32, 4 operands: {chain}");
    let Some(floor) = floor else { return Ok(()) };

    let bytes = COPY_BYTES.min(floor.binding_bytes / 16 * 16);
    let large = floor.copy(bytes);
    let whole = median(LONG, async || large.run()).await?;
    let small = floor.copy(4 * SMALL as u64);
    let latency = median(QUICK, async || small.run()).await?;
    let copy = Bandwidth { bytes: 2 * bytes, whole, latency };
    println!("bare wgpu, relu on {} MB: {copy}", bytes / 1_000_000);
    let whole = median(LONG, async || large.run_driver()).await?;
    let driver = Bandwidth { bytes: 2 * bytes, whole, latency };
    println!("bare wgpu, the driver's copy of {} MB: {driver}", bytes / 1_000_000);
    let copy = if driver.gross() > copy.gross() { driver } else { copy };
    println!(
        "the chain runs at {:.0} % of the better copy bandwidth, {:.0} % without latencies",
        100.0 * chain.gross() / copy.gross(),
        100.0 * chain.net() / copy.net(),
    );
    Ok(())
}

async fn chain_time(device: &Device, elements: usize) -> Result<Duration> {
    let data = numbers(elements);
    let operands =
        (0..4).map(|_| device.resident(&data, [elements])).collect::<Result<Vec<_>>>()?;
    let batch = GpuCommandBatch::new(device);
    let y = eight_ops(&batch, &operands);
    // Held, so that the result's memory is still in use while it is measured.
    let _kept = batch.keep(y);
    median(LONG, async || batch.execute().await.map(drop)).await
}

fn eight_ops<'b>(batch: &'b GpuCommandBatch, operands: &[Resident<f32>]) -> Tensor<'b, f32> {
    chain::record([0, 1, 2, 3].map(|i| batch.bind(&operands[i])))
}

/// Bytes read and written in a time, of which `latency` would pass with next to no bytes too.
struct Bandwidth {
    bytes: u64,
    whole: Duration,
    latency: Duration,
}

impl Bandwidth {
    fn gross(&self) -> f64 {
        self.bytes as f64 / self.whole.as_secs_f64()
    }

    fn net(&self) -> f64 {
        self.bytes as f64 / self.whole.saturating_sub(self.latency).as_secs_f64()
    }
}

impl std::fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, latency) = (ms(self.whole), ms(self.latency));
        let (gross, net) = (self.gross() / 1e9, self.net() / 1e9);
        write!(f, "{whole:.3} ms, {gross:.0} GB/s; without {latency:.3} ms latency {net:.0} GB/s")
    }
}

/// Nanoseconds to record an operation: the median over batches of elementwise operations.
fn record_ns(device: &Device) -> f64 {
    let mut times: Vec<Duration> = (0..21).map(|_| record_time(device)).collect();
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e9 / RECORDED_OPS as f64
}

fn record_time(device: &Device) -> Duration {
    let batch = GpuCommandBatch::new(device);
    let x = batch.upload_shaped(numbers(64), [8, 8]);
    let start = Instant::now();
    planning::elementwise(x, RECORDED_OPS);
    start.elapsed()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
