//! A service under load: many tasks run graphs of changing sizes on one device, some runs are cancelled, some wait for
//! memory, some can never fit. Every result is compared, bit for bit, with what the same graph gave alone.
//!
//! `cargo run --release --example service_soak -- --seconds 60 --tasks 64`

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onetrip::{BufferId, Device, Error, GpuCommandBatch, Result, RunError};

/// Room for a few runs at a time.
const BUDGET: u64 = 4 << 20;
const KINDS: u64 = 4;
const SIZES: u64 = 12;

/// What happened.
#[derive(Default)]
struct Tally {
    runs: AtomicU64,
    wrong: AtomicU64,
    errors: AtomicU64,
    cancelled: AtomicU64,
    refused: AtomicU64,
    times: Mutex<Vec<Duration>>,
}

impl Tally {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % limit
    }
}

/// One of [`KINDS`] graphs in one of [`SIZES`] sizes.
fn record(b: &mut GpuCommandBatch, kind: u64, size: u64) -> BufferId<f32> {
    let rows = 3 + 17 * size as usize;
    let data: Vec<f32> =
        (0..rows * 32).map(|at| ((at * 37 + 11) % 509) as f32 / 255.0 - 1.0).collect();
    let x = b.upload_vec(data, [rows, 32]);
    match kind {
        0 => {
            let y = b.gelu(x);
            b.softmax(y, -1)
        }
        1 => {
            let t = b.transpose(x);
            let product = b.matmul(x, t);
            b.tanh(product)
        }
        2 => {
            let y = b.layer_norm(x, -1, 1e-5);
            b.sum(y, 0)
        }
        _ => {
            let y = b.sin(x);
            let y = b.mul(y, x);
            b.cumsum(y, 0)
        }
    }
}

async fn run(device: &Device, kind: u64, size: u64) -> Result<Vec<u32>> {
    let values = device.eval(|b| record(b, kind, size)).await?;
    Ok(values.into_iter().map(f32::to_bits).collect())
}

type Answers = Arc<HashMap<(u64, u64), Vec<u32>>>;

/// One task of the service.
async fn serve(device: Device, answers: Answers, tally: Arc<Tally>, seed: u64, end: Instant) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    while Instant::now() < end {
        let (kind, size, fate) = (random.below(KINDS), random.below(SIZES), random.below(100));
        if fate == 0 {
            let large = device.eval(|b| b.arange(0.0_f32, 3e6, 1.0)).await;
            match large {
                Err(Error::Run(RunError::OverBudget { .. })) => Tally::add(&tally.refused),
                _ => Tally::add(&tally.errors),
            }
            continue;
        }
        let start = Instant::now();
        let answer = run(&device, kind, size);
        let answer = if fate < 5 {
            let patience = Duration::from_micros(random.below(300));
            match tokio::time::timeout(patience, answer).await {
                Ok(answer) => answer,
                Err(_) => {
                    Tally::add(&tally.cancelled);
                    continue;
                }
            }
        } else {
            answer.await
        };
        Tally::add(&tally.runs);
        match answer {
            Ok(answer) if answer == answers[&(kind, size)] => {}
            Ok(_) => Tally::add(&tally.wrong),
            Err(_) => Tally::add(&tally.errors),
        }
        if let Ok(mut times) = tally.times.lock() {
            times.push(start.elapsed());
        }
    }
}

/// The longest time between two beats, 1 ms apart, beyond that.
async fn heartbeat(end: Arc<AtomicBool>) -> Duration {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !end.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        longest = longest.max(last.elapsed().saturating_sub(Duration::from_millis(1)));
        last = Instant::now();
    }
    longest
}

/// The number after `name` on the command line.
fn argument(name: &str, otherwise: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn live(device: &Device) -> u64 {
    let stats = device.pool_stats();
    stats.gpu.live_bytes + stats.host.live_bytes
}

#[tokio::main]
async fn main() -> Result<()> {
    let device = Device::builder().memory_budget(BUDGET).auto().await?;
    println!("{}", device.info());
    let mut answers = HashMap::new();
    for (kind, size) in (0..KINDS).flat_map(|kind| (0..SIZES).map(move |size| (kind, size))) {
        answers.insert((kind, size), run(&device, kind, size).await?);
    }
    let (answers, tally) = (Arc::new(answers), Arc::new(Tally::default()));
    let before = live(&device);
    let done = Arc::new(AtomicBool::new(false));
    let heart = tokio::spawn(heartbeat(Arc::clone(&done)));
    let end = Instant::now() + Duration::from_secs(argument("--seconds", 10));
    let tasks = (1..=argument("--tasks", 32)).map(|seed| {
        tokio::spawn(serve(device.clone(), Arc::clone(&answers), Arc::clone(&tally), seed, end))
    });
    for task in tasks.collect::<Vec<_>>() {
        if task.await.is_err() {
            Tally::add(&tally.errors);
        }
    }
    done.store(true, Ordering::Relaxed);
    let longest = heart.await.unwrap_or(Duration::MAX);
    // What cancelled runs held comes back when the device has done with them.
    tokio::time::sleep(Duration::from_millis(500)).await;
    report(&device, &tally, longest, live(&device).saturating_sub(before));
    Ok(())
}

fn report(device: &Device, tally: &Tally, heartbeat: Duration, leaked: u64) {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut times = tally.times.lock().map(|times| times.clone()).unwrap_or_default();
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let part = |part: usize| times.get((times.len().max(1) - 1) * part / 100).copied();
    let [p50, p99] = [50, 99].map(|at| ms(part(at).unwrap_or_default()));
    let stats = device.pool_stats();
    let peak = (stats.gpu.peak_bytes + stats.host.peak_bytes) as f64 / f64::from(1 << 20);
    println!(
        "soak: {} runs, {} wrong, {} errors, {} cancelled, {} refused, p50 {p50:.3} p99 {p99:.3} ms, \
         heartbeat max {:.1} ms, peak {peak:.1} MiB, leaked {leaked}",
        count(&tally.runs),
        count(&tally.wrong),
        count(&tally.errors),
        count(&tally.cancelled),
        count(&tally.refused),
        ms(heartbeat),
    );
}
