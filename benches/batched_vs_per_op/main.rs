//! The gain of batching, and the costs of the engine beside bare wgpu.
//!
//! ```text
//! cargo bench --bench batched_vs_per_op                              criterion: batched against per-op
//! cargo bench --bench batched_vs_per_op --features blocking -- --table   medians as a markdown table
//! cargo bench --bench batched_vs_per_op --features blocking -- --bare    the engine against bare wgpu
//! cargo bench --bench batched_vs_per_op -- --planning                planning alone
//! ```
//!
//! The binary needs nothing but itself: it may be copied to another machine and run there with
//! `--table`, `--bare`, `--planning` or, for criterion, `--bench`. Without an adapter it measures the CPU alone.

mod bare;
#[path = "../common/chain.rs"]
mod chain;
mod engine;
mod planning;
mod table;
#[path = "../../examples/common/timing.rs"]
mod timing;
#[path = "../../examples/common/workload.rs"]
mod workload;

use std::error::Error;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use onetrip::Device;
use tokio::runtime::Runtime;
use workload::Work;

/// Operations in a chain.
pub const CHAIN_OPS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Elements that a chain works on.
pub const CHAIN_ELEMENTS: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Rows, inputs and outputs of relu(x·W + b).
pub const LAYERS: [[usize; 3]; 4] =
    [[1, 784, 128], [64, 784, 128], [256, 1024, 1024], [1024, 1024, 1024]];

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let flag = |name: &str| std::env::args().any(|arg| arg == name);
    if flag("--planning") {
        return Ok(runtime.block_on(planning::print())?);
    }
    if flag("--table") || flag("--bare") {
        let devices = runtime.block_on(devices());
        if flag("--bare") {
            runtime.block_on(bare_report(&devices))?;
        }
        if flag("--table") {
            runtime.block_on(table::print(&devices))?;
        }
        return Ok(());
    }
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for device in runtime.block_on(devices()) {
        compare(&mut criterion, &runtime, &device);
    }
    criterion.final_summary();
    Ok(())
}

/// The CPU, and the GPU where there is one.
async fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu()];
    match Device::gpu().await {
        Ok(gpu) => devices.push(gpu),
        Err(error) => eprintln!("only the CPU is measured: {error}"),
    }
    devices
}

async fn bare_report(devices: &[Device]) -> Result<(), Box<dyn Error>> {
    let gpu = devices.iter().find(|device| device.is_gpu());
    let floor = match gpu {
        Some(gpu) => Some(bare::Floor::open(gpu).await?),
        None => {
            println!("No GPU: the measurements beside bare wgpu are left out.\n");
            None
        }
    };
    for device in devices {
        let floor = floor.as_ref().filter(|_| device.is_gpu());
        engine::print(device, floor).await?;
    }
    Ok(())
}

fn compare(criterion: &mut Criterion, runtime: &Runtime, device: &Device) {
    let backend = if device.is_gpu() { "gpu" } else { "cpu" };
    let mut group = criterion.benchmark_group(backend);
    group.sampling_mode(SamplingMode::Flat);
    let chains = CHAIN_ELEMENTS
        .iter()
        .flat_map(|&elements| CHAIN_OPS.iter().map(move |&ops| Work::chain(ops, elements)));
    let layers = LAYERS.iter().map(|&[rows, inputs, outputs]| Work::layer(rows, inputs, outputs));
    for work in chains.chain(layers) {
        let parameter = format!("{}/{}", work.name, work.elements());
        group.throughput(Throughput::Elements(work.elements() as u64));
        group.bench_function(BenchmarkId::new("batched", &parameter), |bencher| {
            bencher
                .to_async(runtime)
                .iter(async || work.batched(device).await.expect("the work is sound"));
        });
        group.bench_function(BenchmarkId::new("per-op", &parameter), |bencher| {
            bencher
                .to_async(runtime)
                .iter(async || work.per_op(device).await.expect("the work is sound"));
        });
    }
    group.finish();
}
