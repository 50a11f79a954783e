//! Memory and runs on zeros that `compile` prepares for the first run.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use onetrip::{Device, Error, GpuCommandBatch, Wgsl};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;

/// Each test holds it: a run on zeros needs a core that no other test has.
static CORES: AsyncMutex<()> = AsyncMutex::const_new(());

#[tokio::test]
async fn the_first_run_of_a_short_program_finds_its_memory() {
    let _cores = CORES.lock().await;
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", [64, 64]);
    let y = x.softmax(1).cumsum(0);
    let program = batch.compile().await.unwrap();
    let outputs = program.run([(x, &[0.5; 64 * 64])]).await.unwrap();
    assert_eq!(outputs.stats().pool_misses, 0);
    let sums = outputs.read(y).await.unwrap();
    assert!((sums[63 * 64] - 1.0).abs() < 1e-5, "{}", sums[63 * 64]);
}

#[tokio::test]
async fn runs_on_zeros_count_nowhere_and_fill_no_resident() {
    let _cores = CORES.lock().await;
    let device = Device::cpu();
    let total = device.resident(&[1.0_f32, 2.0], 2).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", 2);
    let next = batch.bind(&total) * 2.0 + x + 1.0;
    batch.update(&total, next);
    let last = next.keep();
    let program = batch.compile().await.unwrap();
    let metrics = device.metrics();
    assert_eq!((metrics.cpu_runs, metrics.running, metrics.cancelled), (0, 0, 0), "{metrics}");
    assert_eq!(total.read().await.unwrap(), [1.0, 2.0]);
    assert!(last.read().await.is_err(), "no run has filled it");
    let outputs = program.run([(x, &[0.5, 0.25])]).await.unwrap();
    assert_eq!(outputs.stats().pool_misses, 0, "a run on zeros left memory for kept results");
    assert_eq!(device.metrics().cpu_runs, 1);
    assert_eq!(total.read().await.unwrap(), [3.5, 5.25]);
    assert_eq!(last.read().await.unwrap(), [3.5, 5.25]);
}

/// Zeros may be wrong for a program whose data will be right.
#[tokio::test]
async fn a_fault_of_the_zeros_is_no_error() {
    let _cores = CORES.lock().await;
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let ids = batch.input::<u32>("ids", 3);
    let table = batch.upload(&[5.0_f32, 6.0]);
    // Position 0 − 1 is out of range.
    let y = table.gather(ids - 1, 0);
    let program = batch.compile().await.unwrap();
    let metrics = device.metrics();
    assert_eq!((metrics.cpu_runs, metrics.failed, metrics.faults), (0, 0, 0), "{metrics}");
    let outputs = program.run([(ids, &[1, 2, 1])]).await.unwrap();
    assert_eq!(outputs.read(y).await.unwrap(), [5.0, 6.0, 5.0]);
    let fault = program.run([(ids, &[1, 0, 1])]).await.unwrap_err();
    assert!(matches!(fault, Error::Fault(_)), "{fault}");
    let metrics = device.metrics();
    assert_eq!((metrics.failed, metrics.faults), (1, 1));
    assert!(metrics.to_string().contains("1 failed, 1 of them by faults in data"), "{metrics}");
}

/// Inputs that no operation reads may be longer than memory, one or all together.
#[tokio::test]
async fn long_inputs_that_nothing_reads_are_not_filled() {
    let _cores = CORES.lock().await;
    let device = Device::cpu();
    // The bytes of sixteen of the longest are more than a `u64` counts.
    for (count, len) in [(1, 1 << 40), (100, 1 << 20), (16, 1 << 58)] {
        let batch = GpuCommandBatch::new(&device);
        for at in 0..count {
            batch.input::<f32>(&format!("unread{at}"), len);
        }
        let x = batch.input::<f32>("x", 1);
        let y = x.scale(2.0).download();
        let program = batch.compile().await.unwrap();
        let host = device.pool_stats().host;
        assert!(host.idle_bytes < 1 << 20, "{host:?}");
        let outputs = program.run([(x, &[1.0])]).await.unwrap();
        assert_eq!(outputs.read(y).await.unwrap(), [2.0]);
        let error = program.run(()).await.unwrap_err().to_string();
        assert!(error.contains("\"x\"") && !error.contains("unread"), "{error}");
    }
}

/// A run that updates a resident holds its turn until it ends, and long runs take all cores. Compiling waits for neither.
#[tokio::test]
async fn compiling_does_not_wait_for_other_runs() {
    const SOURCE: &str = "
        @group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(2) fn main() { y[0] = x[0] + 1.0; y[1] = x[1] + 1.0; }";
    let _cores = CORES.lock().await;
    let device = Device::cpu();
    let total = device.resident(&[1.0_f32; 2], 2).unwrap();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let mut runs = JoinSet::new();
    for at in 0..=device.info().threads {
        let batch = GpuCommandBatch::new(&device);
        let released = Arc::clone(&released);
        let kernel = Wgsl::new(SOURCE).input(&total).groups([1, 1, 1]);
        let kernel = kernel.on_cpu(move |x: &[f32], y: &mut [f32]| {
            // An error once the other end is dropped.
            let _ = released.lock().unwrap().recv();
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x + 1.0);
        });
        let next = batch.wgsl::<f32>(kernel, 2);
        if at == 0 {
            batch.update(&total, next);
        } else {
            next.download();
        }
        let long = batch.compile().await.unwrap();
        runs.spawn(async move { long.run(()).await.map(drop) });
    }
    while device.metrics().running < runs.len() as u64 {
        tokio::task::yield_now().await;
    }

    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", 2);
    batch.update(&total, batch.bind(&total) * x);
    let compiled = tokio::time::timeout(Duration::from_secs(20), batch.compile()).await;
    drop(release);
    let program = compiled.expect("no wait for the runs").unwrap();
    while let Some(run) = runs.join_next().await {
        run.unwrap().unwrap();
    }
    assert_eq!(total.read().await.unwrap(), [2.0; 2]);
    program.run([(x, &[3.0, 4.0])]).await.unwrap();
    assert_eq!(total.read().await.unwrap(), [6.0, 8.0]);
}

/// The runs of a thread that waits for them lend their inputs.
#[cfg(feature = "blocking")]
#[test]
fn a_thread_that_waits_reserves_no_inputs() {
    const LEN: usize = 3 << 20;
    let _cores = CORES.blocking_lock();
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    batch.input::<f32>("x", LEN).cumsum(0).download();
    let _program = batch.compile_blocking().unwrap();
    assert_eq!(device.metrics().pools.host.idle_bytes, 4 * LEN as u64);
    // Truth values are no words, and are copied.
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<bool>("x", 4 * LEN);
    x.any(0).download();
    let program = batch.compile_blocking().unwrap();
    let outputs = program.run_blocking([(x, &vec![false; 4 * LEN])]).unwrap();
    assert_eq!(outputs.stats().pool_misses, 0);
}

#[tokio::test]
async fn a_resident_takes_the_value_of_another() {
    let _cores = CORES.lock().await;
    let device = Device::cpu();
    let [from, to] = [1.0_f32, 2.0].map(|x| device.resident(&[x; 3], 3).unwrap());
    let batch = GpuCommandBatch::new(&device);
    batch.update(&to, &from);
    batch.execute().await.unwrap();
    assert_eq!(to.read().await.unwrap(), [1.0; 3]);
}

/// Slots and inputs are reserved up to 256 MiB. A plan of more memory than the host has compiles without it.
#[tokio::test]
async fn memory_is_reserved_up_to_a_limit() {
    let _cores = CORES.lock().await;
    for (elements, reserved) in [(3_usize << 20, true), (80 << 20, false), (1 << 45, false)] {
        let device = Device::cpu();
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", elements);
        x.cumsum(0).download();
        let program = batch.compile().await.unwrap();
        let idle = device.metrics().pools.host.idle_bytes;
        assert_eq!(idle, if reserved { 8 * elements as u64 } else { 0 }, "{elements}");
        drop(program);
    }
}
