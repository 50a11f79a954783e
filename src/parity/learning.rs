//! Profiles that learn from what runs take.

use std::sync::Arc;
use std::time::Duration;

use crate::base::test_device::found;
use crate::batch::{BufferId, GpuCommandBatch};
use crate::cost::{Backend, Curve, DeviceProfile, Placement};
use crate::device::{Device, Prepared, Wanted};

/// A device whose host computes rows at the first rate, and whose GPU at the second.
fn device(cpu: f64, gpu: f64, fixed: bool) -> Option<Device> {
    let mut profile = DeviceProfile::typical(1);
    profile.cpu.row = Curve::flat(cpu);
    profile.gpu.row = Curve::flat(gpu);
    with(profile, fixed)
}

fn with(profile: DeviceProfile, fixed: bool) -> Option<Device> {
    let builder = Device::builder().without_cache().with_profile(profile);
    let builder = if fixed { builder.without_learning() } else { builder };
    found(pollster::block_on(builder.both()))
}

fn softmax(device: &Device, rows: usize) -> GpuCommandBatch {
    let batch = GpuCommandBatch::new(device);
    let x = batch.upload_shaped(vec![0.5_f32; rows * 64], [rows, 64]);
    batch.softmax(x, 1);
    batch
}

fn prepared(device: &Device, batch: &GpuCommandBatch) -> (Arc<Prepared>, bool) {
    let recorded = batch.recorded();
    let (graph, placement) = (&recorded.graph, Placement::Auto);
    let wanted = Wanted { graph, placement, residents: &[], is_stateful: false };
    let (choice, known) = device.prepare(&wanted).expect("a plan");
    (choice.prepared, known)
}

/// As if a run had taken so many times what was predicted.
fn ran(device: &Device, prepared: &Prepared, times: f64) {
    let took = Duration::from_secs_f64(times * prepared.seconds);
    device.learn(prepared, took, false, &device.busy());
}

#[test]
fn the_third_run_of_a_graph_misjudged_by_ten_goes_to_the_right_place() {
    for (cpu, gpu, first) in [(1e8, 2e7, Backend::Cpu), (3e7, 1e8, Backend::Gpu)] {
        let Some(device) = device(cpu, gpu, false) else { return };
        let batch = softmax(&device, 1000);
        let (before, _) = prepared(&device, &batch);
        assert_eq!(before.backend(), first);
        ran(&device, &before, 10.0);
        assert!(prepared(&device, &batch).1, "one run changes nothing");
        ran(&device, &before, 10.0);
        let (after, known) = prepared(&device, &batch);
        assert!(!known, "a profile that learned plans anew");
        assert_ne!(after.backend(), first, "{}", device.profile());
        let (again, known) = prepared(&device, &batch);
        assert!(known && Arc::ptr_eq(&after, &again), "the same profile gives the same plan");
        for _ in 0..9 {
            ran(&device, &after, 1.5);
            ran(&device, &before, 10.0);
        }
        assert!(prepared(&device, &batch).1, "neither what was right nor old plans teach");
        device.forget_learned();
        assert!(device.profile().learned.is_empty());
        assert_eq!(prepared(&device, &batch).0.backend(), first);
    }
}

#[test]
fn disturbed_and_cold_runs_teach_nothing_and_neither_does_a_fixed_profile() {
    let Some(learning) = device(1e8, 2e7, false) else { return };
    let batch = softmax(&learning, 1000);
    let (plan, _) = prepared(&learning, &batch);
    for _ in 0..9 {
        let (first, second) = (learning.busy(), learning.busy());
        learning.learn(&plan, Duration::from_secs(1), false, &second);
        drop(second);
        learning.learn(&plan, Duration::from_secs(1), false, &first);
        drop(first);
        let cold = Duration::from_secs_f64(plan.seconds + 3e-4);
        learning.learn(&plan, cold, true, &learning.busy());
    }
    assert!(learning.profile().learned.is_empty());
    let Some(fixed) = device(1e8, 2e7, true) else { return };
    let batch = softmax(&fixed, 1000);
    let (plan, _) = prepared(&fixed, &batch);
    (0..9).for_each(|_| ran(&fixed, &plan, 10.0));
    assert!(fixed.profile().learned.is_empty());
}

#[test]
fn programs_and_batches_follow_what_was_learned() {
    let Some(device) = device(1e8, 2e7, false) else { return };
    let rows = 1000;
    let data: Vec<f32> = (0..rows * 64).map(|at| (at % 37) as f32 * 0.25).collect();
    let recorded = || {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload_shaped(data.clone(), [rows, 64]);
        let y = batch.softmax(x, 1).id();
        (batch, y)
    };
    let right = |results: &[f32]| {
        for (x, y) in data.chunks(64).zip(results.chunks(64)) {
            let most = x.iter().copied().fold(f32::MIN, f32::max);
            let weights: Vec<f64> = x.iter().map(|&x| f64::from(x - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let off = |(&y, w): (&f32, &f64)| (f64::from(y) - w / sum).abs();
            assert!(y.iter().zip(&weights).map(off).all(|off| off < 1e-5));
        }
    };
    let (batch, y) = recorded();
    let program = pollster::block_on(batch.compile()).expect("a program");
    let run = || {
        let outputs = pollster::block_on(program.run([(); 0].map(|()| (y, &[0_f32][..]))));
        let outputs = outputs.expect("a run");
        right(&pollster::block_on(outputs.read(y)).expect("results"));
        outputs.stats().backend
    };
    let executed = |(batch, y): (GpuCommandBatch, BufferId<f32>)| {
        pollster::block_on(batch.execute()).expect("a run");
        right(&pollster::block_on(batch.read(y)).expect("results"));
        (batch.stats().backend, batch)
    };
    // What these runs take teaches nothing: they are not alone.
    let beside = device.busy();
    assert_eq!(run(), Some(Backend::Cpu));
    drop(beside);
    let (plan, _) = prepared(&device, &batch);
    (0..2).for_each(|_| ran(&device, &plan, 10.0));
    let _beside = device.busy();
    assert_eq!(run(), Some(Backend::Gpu), "{}", device.profile());
    assert_eq!(executed((batch, y)).0, Some(Backend::Gpu));
    assert_eq!(executed(recorded()).0, Some(Backend::Gpu));
}

/// A device that is said to do everything in no time: the host in four millionths of a second, the GPU in one.
fn boastful(fixed: bool) -> Option<Device> {
    let mut profile = DeviceProfile::typical(1);
    for (side, round_trip) in [(&mut profile.cpu, 4e-6), (&mut profile.gpu, 1e-6)] {
        let rates = [&mut side.memory, &mut side.row, &mut side.upload, &mut side.download];
        rates.into_iter().for_each(|curve| *curve = Curve::flat(1e18));
        (side.round_trip, side.dispatch) = (round_trip, 1e-9);
    }
    with(profile, fixed)
}

fn side_of_a_run(device: &Device) -> Option<Backend> {
    let batch = softmax(device, 1 << 14);
    pollster::block_on(batch.execute()).expect("a run");
    batch.stats().backend
}

#[test]
fn runs_themselves_teach() {
    let Some(device) = boastful(false) else { return };
    // The first compiles, and those that allocate memory are not believed.
    let sides = (0..100).map(|_| side_of_a_run(&device));
    let on_gpu = sides.take_while(|&side| side == Some(Backend::Gpu)).count();
    assert!((3..100).contains(&on_gpu), "{on_gpu} runs\n{}", device.profile());
    let fixed = boastful(true).expect("a GPU, as above");
    assert!((0..6).all(|_| side_of_a_run(&fixed) == Some(Backend::Gpu)));
    assert!(fixed.profile().learned.is_empty());
}

#[cfg(feature = "serde")]
#[test]
fn what_was_learned_is_kept_on_disk_and_forgotten_there() {
    let folder = std::env::temp_dir().join(format!("onetrip-learned-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let open = || found(pollster::block_on(Device::builder().cache_folder(&folder).both()));
    let Some(device) = open() else { return };
    let mut profile = DeviceProfile::typical(1);
    profile.measured = true;
    device.set_profile(profile.clone());
    let (plan, _) = prepared(&device, &softmax(&device, 1 << 14));
    (0..2).for_each(|_| ran(&device, &plan, 100.0));
    profile.learned = device.profile().learned;
    assert!(!profile.learned.is_empty());
    // Whoever drops it waits until it is written.
    drop(device);
    let device = open().expect("as above");
    assert_eq!(device.profile(), profile);
    device.forget_learned();
    assert!(open().expect("as above").profile().learned.is_empty());
    assert!(open().expect("as above").profile().measured);
    let _ = std::fs::remove_dir_all(&folder);
}
