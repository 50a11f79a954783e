//! Misuse and bad kernels: errors, and nothing hangs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::exec::gpu::driver::{self, Calls};
use crate::exec::{Patch, SliceWrite};
use crate::plan::Wave;

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
    assert!(gpu.device.check_uncaptured_errors().is_ok(), "no error escaped");
}

#[tokio::test]
async fn bad_jobs_are_errors_and_do_no_harm() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 100, 1);
    let before = gpu.memory.pool.counts().live_bytes;
    let short = gpu.run(adder_inputs(&program, &[1; 99])).await.err().unwrap();
    assert!(short.to_string().contains("the data of an upload has another length"), "{short}");
    let none = GpuRunInputs { uploads: Vec::new(), ..adder_inputs(&program, &[1; 100]) };
    assert!(gpu.run(none).await.is_err());

    let mut twice = Builder::new();
    let x = twice.upload(DType::U32, 100, 0, 4);
    let both = inputs(&gpu, twice, vec![map(x, x, "x", 0, 100)], vec![host(&[0u32; 100])]);
    let error = soon(gpu.run(both)).await.err().unwrap();
    assert!(error.to_string().contains("map x"), "{error}");

    let mut huge = Builder::new();
    huge.slot(gpu.limits().binding_bytes as usize + 4);
    let error = gpu.run(inputs(&gpu, huge, Vec::new(), Vec::new())).await.err().unwrap();
    assert!(matches!(error, Error::Device(DeviceError::OutOfMemory { .. })), "{error}");

    until(|| gpu.memory.pool.counts().live_bytes == before).await;
    let run = gpu.run(adder_inputs(&program, &[41; 100])).await.unwrap();
    assert_eq!(run.read::<u32>(0), [42; 100]);
}

/// A call that wgpu refuses.
pub(super) fn stray(gpu: &Gpu) {
    drop(gpu.device.raw().0.create_buffer(&wgpu::BufferDescriptor {
        label: Some("a stray call"),
        size: 4,
        usage: wgpu::BufferUsages::empty(),
        mapped_at_creation: false,
    }));
}

#[tokio::test]
async fn an_earlier_error_is_told_by_the_next_check_and_by_no_scope_that_closes_alone() {
    let gpu = gpu_or_return!();
    let check = || gpu.device.check_uncaptured_errors();
    let doing = || "sound calls".to_owned();
    let sound = |_: &Calls<'_>| Ok::<_, DeviceError>(());
    driver::unscoped(|| stray(&gpu));
    gpu.device.scoped(doing, sound).unwrap();
    check().unwrap_err();
    check().unwrap();
    driver::unscoped(|| stray(&gpu));
    gpu.device.scoped_and_checked(doing, sound).unwrap_err();
    check().unwrap();
    let bad = |_: &Calls<'_>| {
        stray(&gpu);
        Ok::<_, DeviceError>(())
    };
    let error = gpu.device.scoped(doing, bad).unwrap_err();
    assert!(error.to_string().contains("sound calls"), "{error}");
    check().unwrap();
}

#[tokio::test]
async fn after_a_panic_in_a_call_of_ours_the_errors_of_others_fail_no_run() {
    let gpu = gpu_or_return!();
    let panicking = || driver::unscoped(|| panic!("in a call of ours"));
    catch_unwind(AssertUnwindSafe(panicking)).unwrap_err();
    stray(&gpu);
    gpu.device.check_uncaptured_errors().unwrap();
}

#[tokio::test]
async fn leases_that_return_together_are_there_again_each_once() {
    let gpu = gpu_or_return!();
    let (pool, before) = (&gpu.memory.pool, gpu.memory.pool.counts());
    let mut counts = GpuCounts::default();
    let sizes = [1000, 4, 1000, 300];
    let mut lease = || {
        let lease = |bytes| gpu.memory.lease(Kind::Storage, bytes, &mut counts).unwrap();
        sizes.map(lease).into_iter().collect::<Vec<_>>()
    };
    let mut leases = lease();
    let ids: Vec<_> = leases.iter().map(|lease| lease.id).collect();
    leases[3].set_reusable(false);
    drop(leases.remove(1));
    Lease::return_all(leases);
    let after = pool.counts();
    assert_eq!(after.live_bytes, before.live_bytes);
    assert_eq!(after.idle_bytes - before.idle_bytes, 1024 + 256 + 1024);
    let again: Vec<_> = lease().iter().map(|lease| lease.id).collect();
    assert_eq!(counts.pool_hits + counts.pool_misses, 8);
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
        SliceWrite { new: Arc::clone(&new), patch, to: Arc::clone(to), copied: None }
    };
    let (one, other) = (value(&[1; 64]), value(&[2; 64]));
    let sound = patched(&one, 64, 3);
    let beyond = patched(&other, 1 << 24, (1 << 24) - 1);
    let error = gpu.write_slices(&[&sound, &beyond]).unwrap_err();
    assert!(matches!(error, DeviceError::Refused { .. }), "{error}");
    assert_eq!(gpu.read_resident(&one).await.unwrap().to_vec::<u32>(), [1; 64]);
    assert_eq!(gpu.write_slices(&[&sound]).unwrap(), 1);
    assert_eq!(gpu.read_resident(&one).await.unwrap().to_vec::<u32>()[2..5], [1, 9, 1]);
}

#[tokio::test]
async fn results_outlive_the_device() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 10, 1);
    let run = gpu.run(adder_inputs(&program, &[1; 10])).await.unwrap();
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
    check::<GpuRunResults>();
    check::<DeviceBuffer>();
    check::<Kernels>();
}

/// Uploads `a` and `b` in waves of their own: `b + a + 1`, with `brought` as `b`.
fn sum_in_waves(gpu: &Gpu, brought: HostData) -> GpuRunInputs {
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
    inputs(gpu, plan, vec![map(more, a, "x + 1", 0, 100), add], vec![host(&first), brought])
}

#[tokio::test]
async fn a_wave_that_cannot_be_packed_fails_the_run_and_does_no_harm() {
    let gpu = gpu_or_return!();
    let before = gpu.memory.pool.counts().live_bytes;
    for _ in 0..3 {
        let error = gpu.run(sum_in_waves(&gpu, host(&[1_u32; 99]))).await.err().unwrap();
        assert!(error.to_string().contains("the data of an upload has another length"), "{error}");
    }
    until(|| gpu.memory.pool.counts().live_bytes == before).await;
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
    let inputs = sum_in_waves(&gpu, Arc::new(Fatal(gpu.clone(), vec![0; 400])));
    let error = soon(gpu.run(inputs)).await.err().unwrap();
    assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
    until(|| gpu.memory.pool.counts().live_bytes == 0).await;
}
