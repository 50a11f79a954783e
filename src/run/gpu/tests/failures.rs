//! Misuse, bad kernels and lost devices: errors, and nothing hangs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use super::fault::{Scope, ours};
use super::trip::Launched;
use super::*;
use crate::error::Error;
use crate::plan::Wave;
use crate::run::Patch;

#[tokio::test]
async fn bad_kernels_are_errors() {
    let gpu = gpu_or_return!();
    let (x, y) = (ValueId(0), ValueId(1));
    let good = map(y, x, "x", 0, 1);
    let unparsed = map(y, x, "x +", 0, 1);
    let unbound = Dispatch { buffers: good.buffers[..1].to_vec(), ..good.clone() };
    let mut bad_ones = vec![unparsed, unbound];
    // Some adapters have room for a million.
    let limit = gpu.limits().storage_buffers;
    if limit < 10_000 {
        let mut crowded = good.clone();
        crowded.buffers.resize(limit + 1, good.buffers[1]);
        bad_ones.push(crowded);
    }
    for bad in bad_ones {
        let error = gpu.compile_here(vec![good.clone(), bad.clone(), bad]).err().unwrap();
        let DeviceError::Refused { doing, reason } = error else { panic!("{error}") };
        assert!(doing.contains("map x") && !reason.is_empty(), "{doing}: {reason}");
    }
    assert_eq!(gpu.compile_here(vec![good]).unwrap().hits, 1, "the good one was compiled");
    assert!(gpu.0.health.check(&gpu.0.device).is_ok(), "no error escaped");
}

#[tokio::test]
async fn bad_jobs_are_errors_and_do_no_harm() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 100, 1);
    let before = gpu.0.pool.counts().live_bytes;
    let short = gpu.run(adder_job(&program, &[1; 99])).await.err().unwrap();
    assert!(short.to_string().contains("the data of an upload has another length"), "{short}");
    let none = Job { uploads: Vec::new(), ..adder_job(&program, &[1; 100]) };
    assert!(gpu.run(none).await.is_err());

    let mut twice = Builder::new();
    let x = twice.upload(DType::U32, 100, 0, 4);
    let both = job(&gpu, twice, vec![map(x, x, "x", 0, 100)], vec![host(&[0u32; 100])]);
    let error = soon(gpu.run(both)).await.err().unwrap();
    assert!(error.to_string().contains("map x"), "{error}");

    let mut huge = Builder::new();
    huge.slot(gpu.limits().binding_bytes as usize + 4);
    let error = gpu.run(job(&gpu, huge, Vec::new(), Vec::new())).await.err().unwrap();
    assert!(matches!(error, Error::Device(DeviceError::OutOfMemory { .. })), "{error}");

    until(|| gpu.0.pool.counts().live_bytes == before).await;
    let run = gpu.run(adder_job(&program, &[41; 100])).await.unwrap();
    assert_eq!(run.read::<u32>(0), [42; 100]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_device_fails_every_call_and_none_hangs() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 50_000, 1);
    let resident = gpu.resident(DType::U32, &[0; 400]).unwrap();
    let flights: Vec<_> =
        (0..8).map(|_| tokio::spawn(gpu.run(adder_job(&program, &[1; 50_000])))).collect();
    gpu.0.device.destroy();
    for flight in flights {
        // Those that were submitted before may have finished.
        if let Err(error) = soon(flight).await.unwrap() {
            assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
        }
    }
    let lost = |error: DeviceError| assert!(matches!(error, DeviceError::Lost { .. }), "{error}");
    for _ in 0..3 {
        let error = soon(gpu.run(adder_job(&program, &[1; 50_000]))).await.err().unwrap();
        assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
    }
    assert!(gpu.loss().is_some());
    lost(soon(gpu.read_resident(&resident)).await.err().unwrap());
    lost(gpu.resident(DType::U32, &[0; 400]).err().unwrap());
    lost(gpu.compile_here(vec![map(ValueId(0), ValueId(1), "x ^ p", 0, 1)]).err().unwrap());
}

/// A run whose device is lost between two of its stages has no results, or has them right.
#[tokio::test]
async fn a_loss_at_any_stage_is_an_error_and_never_data() {
    let lost =
        |error: Error| assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
    for stage in ["opened", "compiled", "encoded", "submitted", "landed"] {
        let gpu = gpu_or_return!();
        if stage == "opened" {
            // Nobody knows yet.
            gpu.0.device.destroy();
        }
        let program = adder(&gpu, 70_000, 3);
        let job = adder_job(&program, &[4; 70_000]);
        if stage == "compiled" {
            gpu.destroy();
        }
        if stage == "opened" || stage == "compiled" {
            lost(soon(gpu.run(job)).await.err().unwrap());
            continue;
        }
        let encoded = gpu.0.prepare(&job, None).unwrap();
        if stage == "encoded" {
            gpu.destroy();
        }
        let Launched { flight, mut run } = match gpu.0.submit(&job, encoded) {
            Ok(submitted) => submitted,
            Err(error) => {
                lost(error);
                continue;
            }
        };
        if stage == "submitted" {
            gpu.destroy();
        }
        match soon(flight.unwrap().land()).await {
            Ok(readback) => run.readback = readback.map(Arc::new),
            Err(error) => {
                lost(error.into());
                continue;
            }
        }
        assert_ne!(stage, "encoded", "a lost device does not compute");
        gpu.destroy();
        assert_eq!(run.read::<u32>(0), vec![7; 70_000], "{stage}");
    }
}

#[tokio::test]
async fn a_resident_that_is_read_while_the_device_is_lost_is_whole_or_an_error() {
    'polls: for polls in 0..4 {
        let gpu = gpu_or_return!();
        let data = vec![9_u32; 100_000];
        let resident = gpu.resident(DType::U32, bytemuck::cast_slice(&data)).unwrap();
        assert!(gpu.owns(&resident) && !resident.is_lost());
        let mut reading = Box::pin(gpu.read_resident(&resident));
        for _ in 0..polls {
            if poll_fn(|context| std::task::Poll::Ready(reading.as_mut().poll(context).is_ready()))
                .await
            {
                continue 'polls;
            }
        }
        gpu.destroy();
        match soon(reading).await {
            Ok(read) => assert_eq!(read.to_vec::<u32>(), data),
            Err(error) => assert!(matches!(error, DeviceError::Lost { .. }), "{error}"),
        }
    }
}

/// A call that wgpu refuses.
fn stray(gpu: &Gpu) {
    drop(gpu.0.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("a stray call"),
        size: 4,
        usage: wgpu::BufferUsages::empty(),
        mapped_at_creation: false,
    }));
}

#[tokio::test]
async fn an_earlier_error_is_told_by_the_next_check_and_by_no_scope_that_closes_alone() {
    let gpu = gpu_or_return!();
    let check = || gpu.0.health.check(&gpu.0.device);
    let open = || Scope::open(&gpu.0.device, &gpu.0.health);
    let doing = || "sound calls".to_owned();
    ours(|| stray(&gpu));
    open().close_alone(doing).unwrap();
    check().unwrap_err();
    check().unwrap();
    ours(|| stray(&gpu));
    open().close(doing).unwrap_err();
    check().unwrap();
    let scope = open();
    stray(&gpu);
    let error = scope.close_alone(doing).unwrap_err();
    assert!(error.to_string().contains("sound calls"), "{error}");
    check().unwrap();
}

#[tokio::test]
async fn after_a_panic_in_a_call_of_ours_the_errors_of_others_fail_no_run() {
    let gpu = gpu_or_return!();
    let panicking = || ours(|| panic!("in a call of ours"));
    catch_unwind(AssertUnwindSafe(panicking)).unwrap_err();
    stray(&gpu);
    gpu.0.health.check(&gpu.0.device).unwrap();
}

/// Has `call` called when the device is polled next. What is returned is to be held until then.
fn at_next_poll(gpu: &Gpu, call: impl FnOnce() + Send + 'static) -> Lease {
    let class = Class { kind: Kind::Readback, size: 256 };
    let lease = gpu.0.pool.create(&gpu.0.device, class).unwrap();
    lease.set_reusable(false);
    lease.buffer.map_async(wgpu::MapMode::Read, .., move |_| call());
    lease
}

#[tokio::test(flavor = "multi_thread")]
async fn all_may_ask_why_a_device_is_lost_callbacks_of_who_asks_too() {
    let gpu = gpu_or_return!();
    let ask = |shared: &Shared| shared.health.lost(&shared.device, "asked").to_string();
    let (sender, told) = mpsc::channel();
    let shared = Arc::clone(&gpu.0);
    let _held = at_next_poll(&gpu, move || drop(sender.send(ask(&shared))));
    gpu.0.device.destroy();
    let asking = (0..8).map(|_| {
        let shared = Arc::clone(&gpu.0);
        std::thread::spawn(move || ask(&shared))
    });
    let mut answers: Vec<_> =
        asking.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect();
    answers.push(told.recv_timeout(Duration::from_secs(20)).unwrap());
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[tokio::test]
async fn who_checks_a_lost_device_keeps_none_of_its_callbacks_waiting() {
    let gpu = gpu_or_return!();
    let check = |shared: &Shared| shared.health.check(&shared.device);
    let shared = Arc::clone(&gpu.0);
    let _held = at_next_poll(&gpu, move || drop(check(&shared)));
    ours(|| stray(&gpu));
    gpu.0.device.destroy();
    let (sender, told) = mpsc::channel();
    let shared = Arc::clone(&gpu.0);
    std::thread::spawn(move || sender.send(check(&shared)));
    let checked = told.recv_timeout(Duration::from_secs(20)).expect("an answer");
    assert!(matches!(checked, Err(DeviceError::Lost { .. })), "{checked:?}");
}

/// wgpu would free them where the device is polled.
#[tokio::test]
async fn results_may_be_read_after_the_device_is_lost() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 70_000, 3);
    let run = gpu.run(adder_job(&program, &[4; 70_000])).await.unwrap();
    let (sender, told) = mpsc::channel();
    let _held = at_next_poll(&gpu, move || _ = sender.send(()));
    gpu.destroy();
    gpu.run(adder_job(&program, &[4; 70_000])).await.err().unwrap();
    gpu.0.health.lost(&gpu.0.device, "asked");
    gpu.0.poller.wake();
    assert!(told.recv_timeout(Duration::from_millis(200)).is_err(), "the device was polled");
    assert_eq!(run.read::<u32>(0), vec![7; 70_000]);
    drop(run);
    told.recv_timeout(Duration::from_secs(20)).expect("the device is polled");
}

/// Callbacks hold buffers, and these the device.
#[tokio::test]
async fn a_lost_device_calls_back_when_the_results_that_outlive_it_were_read() {
    let gpu = gpu_or_return!();
    let run = gpu.run(adder_job(&adder(&gpu, 70_000, 3), &[4; 70_000])).await.unwrap();
    let (sender, told) = mpsc::channel();
    let _held = at_next_poll(&gpu, move || _ = sender.send(()));
    gpu.destroy();
    drop(gpu);
    assert!(told.recv_timeout(Duration::from_millis(200)).is_err(), "the device was polled");
    assert_eq!(run.read::<u32>(0), vec![7; 70_000]);
    drop(run);
    told.recv_timeout(Duration::from_secs(20)).expect("the device is polled");
}

#[tokio::test]
async fn loans_that_end_together_are_there_again_each_once() {
    let gpu = gpu_or_return!();
    let (pool, before) = (&gpu.0.pool, gpu.0.pool.counts());
    let mut counts = GpuCounts::default();
    let sizes = [1000, 4, 1000, 300];
    let leases = gpu.0.lease_all(Kind::Storage, sizes.into_iter(), &mut counts).unwrap();
    let ids: Vec<_> = leases.iter().map(|lease| lease.id).collect();
    assert_eq!(counts.pool_hits + counts.pool_misses, 4);
    leases[1].give_up();
    leases[3].set_reusable(false);
    Lease::give_up_all(leases.iter());
    Lease::give_up_all(leases.iter());
    drop(leases);
    let after = pool.counts();
    assert_eq!(after.live_bytes, before.live_bytes);
    assert_eq!(after.idle_bytes - before.idle_bytes, 1024 + 256 + 1024);
    let again = gpu.0.lease_all(Kind::Storage, sizes.into_iter(), &mut counts).unwrap();
    let again: Vec<_> = again.iter().map(|lease| lease.id).collect();
    assert_eq!(again[..3], ids[..3], "those that came back");
    assert!(!ids.contains(&again[3]), "the one that may not");
}

#[tokio::test]
async fn if_one_of_many_parts_is_refused_none_is_replaced() {
    let gpu = gpu_or_return!();
    let value = |data: &[u32]| gpu.resident(DType::U32, bytemuck::cast_slice(data)).unwrap();
    let new = value(&[9]);
    let patched = |to: &Arc<DeviceBuffer>, elements, at| {
        let patch = Patch::new(&Shape::from([elements]), 0, at, 1);
        Patched { new: Arc::clone(&new), patch, to: Arc::clone(to), copied: None }
    };
    let (one, other) = (value(&[1; 64]), value(&[2; 64]));
    let sound = patched(&one, 64, 3);
    let beyond = patched(&other, 1 << 24, (1 << 24) - 1);
    let error = gpu.patch(&[&sound, &beyond]).unwrap_err();
    assert!(matches!(error, DeviceError::Refused { .. }), "{error}");
    assert_eq!(gpu.read_resident(&one).await.unwrap().to_vec::<u32>(), [1; 64]);
    assert_eq!(gpu.patch(&[&sound]).unwrap(), 1);
    assert_eq!(gpu.read_resident(&one).await.unwrap().to_vec::<u32>()[2..5], [1, 9, 1]);
}

#[tokio::test]
async fn results_outlive_the_device() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 10, 1);
    let run = gpu.run(adder_job(&program, &[1; 10])).await.unwrap();
    drop((gpu, program));
    assert_eq!(run.read::<u32>(0), [2; 10]);
}

#[test]
fn an_adapter_that_is_not_there_is_an_error() {
    let choice = AdapterChoice::best(Some("no such card".into()), true);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(Gpu::open(&choice, None, ())).err().unwrap();
    assert!(matches!(error, DeviceError::NoAdapter { .. }), "{error}");
}

#[test]
fn devices_and_results_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<Gpu>();
    check::<GpuRun>();
    check::<DeviceBuffer>();
    check::<Kernels>();
}

/// Uploads `a` and `b` in waves of their own: `b + a + 1`, with `brought` as `b`.
fn sum_in_waves(gpu: &Gpu, brought: HostData) -> Job {
    let mut plan = Builder::new();
    let [a, b] = [0, 1].map(|input| plan.upload(DType::U32, 100, input, 4));
    let [more, sum] = [0, 1].map(|_| plan.result(DType::U32, 100, 4));
    plan.0.downloads.push(sum);
    let wave = |at, upload| Wave { dispatches: at..at + 1, uploads: vec![upload] };
    plan.0.waves = vec![wave(0, a), wave(1, b)];
    let mut add = map(sum, b, "x + other[i]", 0, 100);
    let binding = "@group(0) @binding(3) var<storage, read> other: array<u32>;\n";
    add.wgsl.insert_str(0, binding);
    add.buffers.push(Binding { buffer: BufferRef::Value(more), writes: false });
    let first: Vec<u32> = (0..100).collect();
    job(gpu, plan, vec![map(more, a, "x + 1", 0, 100), add], vec![host(&first), brought])
}

#[tokio::test]
async fn a_wave_that_cannot_be_packed_fails_the_run_and_does_no_harm() {
    let gpu = gpu_or_return!();
    let before = gpu.0.pool.counts().live_bytes;
    for _ in 0..3 {
        let error = gpu.run(sum_in_waves(&gpu, host(&[1_u32; 99]))).await.err().unwrap();
        assert!(error.to_string().contains("the data of an upload has another length"), "{error}");
    }
    until(|| gpu.0.pool.counts().live_bytes == before).await;
    let run = soon(gpu.run(sum_in_waves(&gpu, host(&[7_u32; 100])))).await.unwrap();
    assert_eq!(run.read::<u32>(0), (8..108).collect::<Vec<u32>>());
    assert_eq!((run.counts.uploads, run.counts.submits, run.counts.downloads), (2, 2, 1));
}

/// Data that is asked for after the first wave is under way.
struct Fatal(Gpu, Vec<u8>);

impl AsRef<[u8]> for Fatal {
    fn as_ref(&self) -> &[u8] {
        self.0.destroy();
        &self.1
    }
}

#[tokio::test]
async fn a_device_that_is_lost_between_waves_is_an_error() {
    let gpu = gpu_or_return!();
    let job = sum_in_waves(&gpu, Arc::new(Fatal(gpu.clone(), vec![0; 400])));
    let error = soon(gpu.run(job)).await.err().unwrap();
    assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
    until(|| gpu.0.pool.counts().live_bytes == 0).await;
}
