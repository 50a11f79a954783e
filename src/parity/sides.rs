//! Graphs that run on both sides at once.

use super::compare::check_on;
use super::graphs::{TOLERANCE, grow};
use super::sample::Rng;
use crate::batch::{GpuCommandBatch, Resident, Tensor};
use crate::cost::{Backend, Curve, DeviceProfile, Placement};
use crate::device::{Device, Recovery};
use crate::error::{DeviceError, Error, FaultKind};
use crate::session::RunStats;

/// The host's cores and a GPU in one device; `None` where there is no GPU.
fn both() -> Option<Device> {
    if super::devices().len() < 2 {
        return None;
    }
    let builder = Device::builder().without_cache();
    Some(pollster::block_on(builder.both()).expect("an adapter that was opened before"))
}

/// Devices so slow, each at something else, that it pays to share out a graph of a few numbers.
fn strange(rng: &mut Rng) -> DeviceProfile {
    let mut profile = DeviceProfile::typical(1);
    profile.tiles.clear();
    for side in [&mut profile.cpu, &mut profile.gpu] {
        for curve in side.curves_mut() {
            *curve = Curve::flat(10_f64.powf(rng.uniform(2.0, 7.0)));
        }
        (side.round_trip, side.dispatch) = (1e-5, 1e-6);
    }
    (profile.cpu.upload, profile.cpu.download) = (Curve::default(), Curve::default());
    profile
}

/// All rates alike, but for rows on the GPU and products on the host, which take forever.
fn divided() -> DeviceProfile {
    let mut profile = DeviceProfile::typical(1);
    for side in [&mut profile.cpu, &mut profile.gpu] {
        side.curves_mut().into_iter().for_each(|curve| *curve = Curve::flat(1e9));
        (side.round_trip, side.dispatch) = (1e-6, 1e-6);
    }
    (profile.cpu.upload, profile.cpu.download) = (Curve::default(), Curve::default());
    profile.gpu.row = Curve::flat(1e3);
    (profile.cpu.product, profile.cpu.thin_product) = (Curve::flat(1e3), Curve::flat(1e3));
    profile
}

/// A device that was not measured leaves all work of a software adapter to the cores that it is emulated on.
#[test]
fn a_software_adapter_that_was_not_measured_gets_no_work() {
    let Some(device) = both().filter(|device| device.info().software) else { return };
    assert!(!device.profile().measured);
    for elements in [1_usize, 1 << 10, 1 << 20, 1 << 24] {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", [elements.min(1 << 10), elements.div_ceil(1 << 10)]);
        let (sine, product) = (x.sin().sum(1), x.matmul(x.transpose()).softmax(1));
        batch.outputs([sine, product]);
        let plan = batch.explain().expect("a sound graph");
        assert_eq!(plan.backend(), Backend::Cpu, "{plan}");
    }
}

/// Uploads may be predicted to take so long that they go in waves, each submitted once.
fn is_one_trip(stats: &RunStats) -> bool {
    let waves = stats.submits > 1 && stats.uploads == stats.submits;
    (waves || stats.uploads <= 1 && stats.submits <= 1) && stats.downloads <= 1
}

fn is_mixed(stats: &RunStats) -> bool {
    stats.backend == Some(Backend::Gpu) && stats.dispatches_on_cpu > 0
}

#[test]
fn random_graphs_in_parts_are_interpreted() {
    let Some(device) = both() else { return };
    let mut rng = Rng::new(11);
    let mut mixed = 0;
    for seed in 0..16 {
        device.set_profile(strange(&mut rng));
        let (steps, all) = (12 + rng.below(12), true);
        let what = format!("seed {seed}, {steps} steps");
        let stats = check_on(&device, &what, TOLERANCE, |b| grow(b, seed, steps, all));
        assert!(is_one_trip(&stats), "{what}: {stats}");
        mixed += usize::from(is_mixed(&stats));
    }
    assert!(mixed >= 4, "only {mixed} graphs ran on both sides");
}

/// A row operation before a product, one after it, and one beside it.
fn sandwich<'b>(b: &'b GpuCommandBatch, x: &[f32]) -> [Tensor<'b, f32>; 3] {
    let x = b.upload_shaped(x, [16, 16]);
    let product = b.softmax(x, 1).matmul(x);
    let after = b.softmax(product, 0);
    let beside = b.softmax(x, 0);
    [after, beside, product]
}

#[tokio::test]
async fn what_comes_before_beside_and_after_the_gpu_is_one_trip() {
    let Some(device) = both() else { return };
    device.set_profile(divided());
    let x: Vec<f32> = (0..256).map(|i| (i % 23) as f32 / 7.0 - 1.5).collect();
    let mut want = Vec::new();
    for device in [&Device::cpu(), &device] {
        let batch = GpuCommandBatch::new(device);
        let ids = sandwich(&batch, &x);
        ids.iter().for_each(|&id| batch.download(id));
        let page = batch.explain().unwrap().to_string();
        for run in 0..2 {
            batch.execute().await.unwrap();
            let mut got = Vec::new();
            for id in ids {
                got.push(batch.read(id).await.unwrap());
            }
            if want.is_empty() {
                want.clone_from(&got);
            }
            let pairs = want.iter().flatten().zip(got.iter().flatten());
            assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-5), "run {run}: {page}");
        }
        if device.is_gpu() {
            let stats = batch.stats();
            assert_eq!((stats.uploads, stats.submits, stats.downloads), (1, 1, 1), "{stats}");
            assert_eq!((stats.dispatches, stats.dispatches_on_cpu), (4, 3), "{page}");
            for part in ["before the gpu", "on the gpu", "beside the gpu", "after the gpu"] {
                assert!(page.contains(part), "{page}");
            }
        }
    }
}

#[tokio::test]
async fn what_others_write_to_a_resident_is_what_both_sides_read() {
    let Some(device) = both() else { return };
    let queue = device.wgpu_queue().unwrap();
    let resident = device.resident(&[1.0_f32, 2.0], 2).unwrap();
    let buffer = resident.wgpu_buffer().unwrap();
    let batch = GpuCommandBatch::new(&device);
    let y = batch.bind(&resident).scale(2.0);
    for (side, written) in [Placement::Cpu, Placement::Cpu, Placement::Gpu].into_iter().zip(3_u8..)
    {
        let written = f32::from(written);
        queue.write_buffer(&buffer, 0, bytemuck::bytes_of(&written));
        queue.submit([]);
        batch.set_placement(side);
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap(), [2.0 * written, 4.0], "on the {side}");
        assert_eq!(resident.read().await.unwrap(), [written, 2.0], "after the {side}");
    }
}

#[tokio::test]
async fn programs_and_residents_work_in_parts() {
    let Some(device) = both() else { return };
    device.set_profile(divided());
    let weights: Vec<f32> = (0..256).map(|i| (i % 11) as f32 / 8.0 - 0.6).collect();
    let weights = device.resident(&weights, [16, 16]).unwrap();
    let state = device.resident(&[1.0_f32; 16], 16).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", [16, 16]);
    let (w, s) = (batch.bind(&weights), batch.bind(&state));
    let y = batch.softmax(x, 1).matmul(w).softmax(1);
    let sums = batch.sum(y, 0);
    let next = batch.add(s, sums);
    batch.update(&state, next);
    batch.name(y, "y");
    batch.download(y);
    let kept = batch.keep(y);
    let program = batch.compile().await.unwrap();
    for run in 1..4 {
        let data = [run as f32; 256];
        let outputs = program.run([("x", &data)]).await.unwrap();
        assert!(is_mixed(outputs.stats()) && is_one_trip(outputs.stats()), "{}", outputs.stats());
        let y = outputs.read::<f32>("y").await.unwrap();
        assert!((y.iter().sum::<f32>() - 16.0).abs() < 1e-4);
        assert_eq!(kept.read().await.unwrap(), y);
        assert_eq!(outputs.kept::<f32>("y").unwrap().read().await.unwrap(), y);
        let sum: f32 = state.read().await.unwrap().iter().sum();
        assert!((sum - 16.0 * (1 + run) as f32).abs() < 1e-3, "{sum} after run {run}");
    }
}

#[tokio::test]
async fn the_first_fault_recorded_is_told_whichever_part_finds_it() {
    let Some(device) = both() else { return };
    device.set_profile(divided());
    for bad in [[9_u32, 2, 3], [0, 9, 3], [0, 2, 9], [9, 9, 9]] {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload_shaped(&[0.5_f32; 256], [16, 16]);
        let table = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0]);
        let mut picks = bad.map(|index| {
            let index = batch.upload(&[index]);
            batch.gather(table, index, 0)
        });
        picks[0] = batch.softmax(picks[0], 0);
        let after = batch.add(x, picks[0]).softmax(1).matmul(x).add(picks[1]).softmax(1);
        batch.mul(after, picks[2]).download();
        let error = batch.execute().await.unwrap_err();
        let Error::Fault(fault) = error else { panic!("{error}") };
        let FaultKind::Index { index, .. } = fault.what else { panic!("{fault}") };
        assert_eq!(index, Some(9), "{bad:?}");
    }
}

/// Times of a GPU on which a kernel takes a second longer than on the host, and 5 MiB two and a half to come from
/// there.
fn slow_gpu() -> DeviceProfile {
    let mut profile = DeviceProfile::typical(1);
    profile.gpu.dispatch = 1.0;
    profile.gpu.download = Curve::flat(f64::from(2 << 20));
    profile
}

/// A device of that profile that learns nothing, and the data of a resident of 5 MiB.
async fn slow(profile: DeviceProfile, recovery: Recovery) -> (Device, Vec<f32>) {
    let builder = Device::builder().without_cache().without_learning().with_profile(profile);
    let device = builder.recovery(recovery).both().await.unwrap();
    (device, (0..5 << 18).map(|i| (i % 1000) as f32).collect())
}

/// The sides of so many runs that read a resident of 5 MiB, too large to be kept on both from the start.
async fn sides_of_runs(device: &Device, resident: &Resident<f32>, runs: usize) -> Vec<Backend> {
    let batch = GpuCommandBatch::new(device);
    let y = batch.bind(resident).scale(2.0);
    let kept = batch.keep(y);
    let mut sides = Vec::new();
    for _ in 0..runs {
        batch.execute().await.unwrap();
        assert_eq!(kept.read_view().await.unwrap()[5999], 1998.0);
        sides.push(batch.stats().backend.unwrap());
    }
    sides
}

#[tokio::test]
async fn a_resident_moves_if_eight_runs_save_what_that_takes() {
    use Backend::{Cpu, Gpu};
    if both().is_none() {
        return;
    }
    let (device, data) = slow(slow_gpu(), Recovery::default()).await;
    let resident = device.resident(&data, data.len()).unwrap();
    // Each run saves a second, and the move takes two and a half.
    assert_eq!(sides_of_runs(&device, &resident, 5).await, [Cpu; 5]);
    assert_eq!(device.metrics().residents_down, 1, "it stays");
    // A shared buffer stays where others write it.
    let shared = device.resident(&data, data.len()).unwrap();
    shared.wgpu_buffer().unwrap();
    assert_eq!(sides_of_runs(&device, &shared, 5).await, [Gpu; 5]);
    // A state may be back on the GPU after each run: one run must save the time of the move.
    let state = device.resident(&data, data.len()).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let y = batch.bind(&state).add_scalar(1.0);
    batch.update(&state, y);
    let mut sides = Vec::new();
    for run in 1_u8..7 {
        batch.execute().await.unwrap();
        sides.push(batch.stats().backend.unwrap());
        assert_eq!(state.read_view().await.unwrap()[999], 999.0 + f32::from(run));
    }
    assert_eq!(sides, [Gpu; 6]);
    let mut profile = slow_gpu();
    profile.gpu.dispatch = 3.0;
    device.set_profile(profile.clone());
    batch.execute().await.unwrap();
    assert_eq!(batch.stats().backend, Some(Cpu));
    // Eight runs save a quarter of the time of this move.
    (profile.gpu.dispatch, profile.gpu.download) = (1.0, Curve::flat(f64::from(5 << 15)));
    device.set_profile(profile);
    let resident = device.resident(&data, data.len()).unwrap();
    assert_eq!(sides_of_runs(&device, &resident, 3).await, [Gpu; 3]);
}

#[tokio::test]
async fn a_preferred_side_has_the_data_from_the_next_run_on() {
    use Backend::{Cpu, Gpu};
    if both().is_none() {
        return;
    }
    // It comes so slowly from the GPU that no number of runs pays for it.
    let mut profile = slow_gpu();
    profile.gpu.download = Curve::flat(1e3);
    let (device, data) = slow(profile, Recovery::default()).await;
    let resident = device.resident(&data, data.len()).unwrap();
    assert_eq!(sides_of_runs(&device, &resident, 2).await, [Gpu; 2]);
    let before = device.metrics().residents_down;
    resident.prefer(Cpu);
    assert_eq!(sides_of_runs(&device, &resident, 2).await, [Cpu; 2]);
    assert_eq!(device.metrics().residents_down, before + 1, "the copy stays");
    let shared = device.resident(&data, data.len()).unwrap();
    shared.wgpu_buffer().unwrap();
    shared.prefer(Cpu);
    assert_eq!(sides_of_runs(&device, &shared, 2).await, [Gpu; 2]);
}

/// Reads a resident of 16 MiB, which lies on the GPU alone, until the device is measured.
#[cfg(feature = "serde")]
#[tokio::test]
async fn a_device_whose_graphs_all_read_a_large_resident_is_measured() {
    if both().is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("onetrip-measured-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let device = Device::builder().cache_folder(&folder).both().await.unwrap();
    let table = device.resident(&vec![0.5_f32; 4 << 20], [4 << 10, 1 << 10]).unwrap();
    let start = std::time::Instant::now();
    while !device.profile().measured {
        assert!(start.elapsed().as_secs() < 120, "never measured");
        let batch = GpuCommandBatch::new(&device);
        let rows = batch.upload(&[1_u32, 5, 3]);
        let y = batch.bind(&table).embedding(rows);
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap(), [0.5; 3 << 10]);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    drop(device);
    let _ = std::fs::remove_dir_all(&folder);
}

#[tokio::test]
async fn a_resident_that_cannot_move_is_lost_with_its_gpu() {
    if both().is_none() {
        return;
    }
    let mut profile = slow_gpu();
    profile.gpu.download = Curve::flat(1e3);
    let (device, data) = slow(profile, Recovery::Reopen).await;
    let resident = device.resident(&data, data.len()).unwrap();
    assert_eq!(sides_of_runs(&device, &resident, 3).await, [Backend::Gpu; 3]);
    device.simulate_loss();
    let is_lost = |error| matches!(error, Error::Device(DeviceError::ResidentLost { .. }));
    assert!(is_lost(resident.read().await.unwrap_err()));
    let batch = GpuCommandBatch::new(&device);
    batch.bind(&resident).scale(2.0);
    assert!(is_lost(batch.execute().await.unwrap_err()));
}

#[tokio::test]
async fn a_program_runs_where_it_is_placed() {
    let Some(device) = both() else { return };
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", 2);
    let y = batch.relu(x);
    let program = batch.compile().await.unwrap();
    for (placement, side) in [(Placement::Gpu, Backend::Gpu), (Placement::Cpu, Backend::Cpu)] {
        let placed = program.with_placement(placement).await.unwrap();
        let outputs = placed.run([(x, &[1.0, -2.0])]).await.unwrap();
        assert_eq!(outputs.stats().backend, Some(side));
        assert_eq!(outputs.read(y).await.unwrap(), [1.0, 0.0]);
        assert_eq!(placed.fingerprint(), program.fingerprint());
    }
    let alone = GpuCommandBatch::new(&Device::cpu());
    alone.upload(&[1.0_f32]);
    let program = alone.compile().await.unwrap();
    assert!(program.with_placement(Placement::Gpu).await.is_err(), "there is none");
}
