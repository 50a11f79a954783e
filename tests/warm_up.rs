//! Runs on zeros, which compiling a short program makes: nothing but the time of the first run tells of them.

use onetrip::{Device, Error, GpuCommandBatch};

#[tokio::test]
async fn the_first_run_of_a_short_program_finds_its_memory() {
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
    program.run([(x, &[0.5, 0.25])]).await.unwrap();
    assert_eq!(device.metrics().cpu_runs, 1);
    assert_eq!(total.read().await.unwrap(), [3.5, 5.25]);
    assert_eq!(last.read().await.unwrap(), [3.5, 5.25]);
}

/// Zeros may be wrong for a program whose data will be right.
#[tokio::test]
async fn a_fault_of_the_zeros_is_no_error() {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let ids = batch.input::<u32>("ids", 3);
    let table = batch.upload(&[5.0_f32, 6.0]);
    // Position 0 − 1 is out of range.
    let y = table.gather(ids - 1, 0);
    let program = batch.compile().await.unwrap();
    let metrics = device.metrics();
    assert_eq!((metrics.cpu_runs, metrics.failed), (0, 0), "{metrics}");
    let outputs = program.run([(ids, &[1, 2, 1])]).await.unwrap();
    assert_eq!(outputs.read(y).await.unwrap(), [5.0, 6.0, 5.0]);
    let fault = program.run([(ids, &[1, 0, 1])]).await.unwrap_err();
    assert!(matches!(fault, Error::Fault(_)), "{fault}");
    assert_eq!(device.metrics().failed, 1);
}

/// An input that no operation reads may be longer than memory.
#[tokio::test]
async fn long_inputs_that_nothing_reads_are_not_filled() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let unread = batch.input::<f32>("unread", 1 << 40);
    let x = batch.input::<f32>("x", 1);
    let y = x + 1.0;
    let program = batch.compile().await.unwrap();
    let error = program.run([(x, &[1.0])]).await.unwrap_err();
    assert!(error.to_string().contains("unread"), "{error}");
    let _ = (unread, y);
}

/// A run that updates a resident holds its turn until it ends. Compiling does not wait for it.
#[tokio::test]
async fn compiling_beside_runs_that_update_a_resident_ends() {
    let device = Device::cpu();
    let total = device.resident(&[0.0_f32; 2], 2).unwrap();
    let record = async || {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", 2);
        batch.update(&total, batch.bind(&total) + x);
        batch.compile().await.unwrap()
    };
    let program = record().await;
    let runs = async {
        for _ in 0..50 {
            program.run([("x", &[1.0_f32, 2.0])]).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let compiles = async {
        for _ in 0..20 {
            record().await;
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(runs, compiles);
    assert_eq!(total.read().await.unwrap(), [50.0, 100.0]);
}

/// Slots and inputs are reserved up to 256 MiB. A plan of more memory than the host has compiles without it.
#[tokio::test]
async fn memory_is_reserved_up_to_a_limit() {
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
