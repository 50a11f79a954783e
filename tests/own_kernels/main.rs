//! Kernels of the user's own: what they compute on each side, what is refused, and where.

#[path = "../common/mod.rs"]
mod common;
mod places;
mod refused;

use std::sync::{Arc, Mutex};
use std::thread;

use onetrip::{
    Device, DeviceError, Error, GpuCommandBatch, KernelInput, PlanError, Recovery, Tensor, Wgsl,
};

/// Counts how often each number below `arrayLength(&counts)` occurs, by atomics.
const COUNTS: &str = "
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;

@compute @workgroup_size(64)
fn count(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&x) { atomicAdd(&counts[x[id.x]], 1u); }
}";

fn in_one_group(source: &str) -> Wgsl {
    Wgsl::new(source).groups([1, 1, 1])
}

fn counts(x: impl KernelInput<u32>, len: usize) -> Wgsl {
    let groups = [len.div_ceil(64) as u32, 1, 1];
    Wgsl::new(COUNTS)
        .entry_point("count")
        .input(x)
        .groups(groups)
        .on_cpu(|x: &[u32], counts: &mut [u32]| x.iter().for_each(|&x| counts[x as usize] += 1))
}

/// a · x + y of four neighbours a thread, with a a scalar.
const AXPY: &str = "
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> y: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> z: array<vec4<f32>>;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&z) { z[id.x] = a[0] * x[id.x] + y[id.x]; }
}";

fn axpy(a: Tensor<f32>, x: Tensor<f32>, y: Tensor<f32>, len: usize) -> Wgsl {
    let groups = [len.div_ceil(128) as u32, 1, 1];
    let kernel = Wgsl::new(AXPY).input(a).input(x).input(y).groups(groups);
    kernel.on_cpu(|a: &[f32], x: &[f32], y: &[f32], z: &mut [f32]| {
        for (z, (x, y)) in z.iter_mut().zip(x.iter().zip(y)) {
            *z = a[0] * x + y;
        }
    })
}

/// Stores which input number `at` has.
fn lengths(inputs: usize) -> String {
    let inputs_text: String = (0..inputs)
        .map(|at| format!("@group(0) @binding({at}) var<storage, read> x{at}: array<i32>;\n"))
        .collect();
    let stores: String =
        (0..inputs).map(|at| format!("y[{at}] = i32(arrayLength(&x{at}));")).collect();
    format!(
        "{inputs_text}@group(0) @binding({inputs}) var<storage, read_write> y: array<i32>;
         @compute @workgroup_size(1) fn main() {{ {stores} }}"
    )
}

#[tokio::test]
async fn counts_are_those_of_a_loop_on_both_sides() {
    for device in common::devices().await {
        for len in [1_usize, 63, 64, 65, 1000] {
            let data: Vec<u32> = (0..len).map(|i| (i * i % 13) as u32).collect();
            let mut want = [0_u32; 16];
            data.iter().for_each(|&x| want[x as usize] += 1);
            let batch = GpuCommandBatch::new(&device);
            let x = batch.upload(&data);
            let y = batch.wgsl::<u32>(counts(x, len), 16);
            // Twice, so that the memory is not fresh: what is not written is 0.
            for _ in 0..2 {
                batch.execute().await.unwrap();
                assert_eq!(batch.read(y).await.unwrap(), want);
            }
        }
    }
}

/// Views are written out, what is computed before is stored, and what follows fuses with itself.
#[tokio::test]
async fn kernels_stand_among_other_operations() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let (rows, columns) = (12, 20);
        let data: Vec<f32> = (0..rows * columns).map(|i| i as f32 * 0.5 - 3.0).collect();
        let x = batch.upload_shaped(&data, [rows, columns]);
        let a = batch.full(1, 2.0_f32);
        let shifted = batch.reshape(x + 1.0, [columns, rows]);
        let kernel = axpy(a, batch.transpose(x), shifted, rows * columns);
        let z = batch.wgsl::<f32>(kernel, [columns, rows]);
        let half = z * 0.5;
        let sum = batch.sum(half, 1);
        let again = batch.wgsl::<f32>(axpy(a, half, half, rows * columns), [rows, columns]);
        for id in [z, sum, again] {
            batch.download(id);
        }
        batch.execute().await.unwrap();
        let z_at = |i: usize| {
            let (column, row) = (i / rows, i % rows);
            2.0 * data[row * columns + column] + data[i] + 1.0
        };
        let want: Vec<f32> = (0..rows * columns).map(z_at).collect();
        assert_eq!(batch.read(z).await.unwrap(), want);
        let sums: Vec<f32> =
            want.chunks(rows).map(|row| row.iter().map(|z| z * 0.5).sum()).collect();
        assert_eq!(batch.read(sum).await.unwrap(), sums);
        let want: Vec<f32> = want.iter().map(|z| 1.5 * z).collect();
        assert_eq!(batch.read(again).await.unwrap(), want);
        let explained = batch.explain().unwrap().to_string();
        assert!(explained.contains("wgsl"), "{explained}");
        assert_eq!(explained.contains(" × 1 × 1 workgroups"), device.is_gpu(), "{explained}");
    }
}

/// Buffers are larger than their values: `arrayLength` must not show it, whatever lies in the same place.
#[tokio::test]
async fn a_kernel_sees_its_elements_alone() {
    for device in common::devices().await {
        if !device.is_gpu() {
            continue;
        }
        let batch = GpuCommandBatch::new(&device);
        let lens = [1, 3, 64, 65, 1000];
        let ids = lens.map(|len| batch.upload(&vec![7_i32; len]));
        let source = lengths(7);
        let kernel = in_one_group(&source);
        let kernel = ids.into_iter().chain([ids[0], ids[4]]).fold(kernel, Wgsl::input);
        let y = batch.wgsl::<i32>(kernel, 9);
        // The same texts, for other lengths.
        let kernel =
            ids.into_iter().rev().chain([ids[1], ids[1]]).fold(in_one_group(&source), Wgsl::input);
        let z = batch.wgsl::<i32>(kernel, 9);
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap(), [1, 3, 64, 65, 1000, 1, 1000, 0, 0]);
        assert_eq!(batch.read(z).await.unwrap(), [1000, 65, 64, 3, 1, 3, 3, 0, 0]);
    }
}

/// Memory beyond the ends of arrays is out of reach, and the memory of a workgroup holds nothing of earlier ones.
#[tokio::test]
async fn a_kernel_that_leaves_its_arrays_harms_nobody() {
    let source = "
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
var<workgroup> shared_words: array<u32, 8>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32) {
    let stale = shared_words[i % 8u];
    y[i * 1000u + 4u] = 5u;
    y[i % 4u] = select(0u, 1u, stale == 0u) + x[i * 100000u] - x[i * 100000u];
}";
    for device in common::devices().await {
        if !device.is_gpu() {
            continue;
        }
        let other = device.resident(&[3_u32; 4096], 4096).unwrap();
        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload(&[9_u32; 4]);
        let y = batch.wgsl::<u32>(in_one_group(source).input(x), 4);
        batch.execute().await.unwrap();
        let got = batch.read(y).await.unwrap();
        // A write beyond the end lands in the last element or nowhere.
        assert!(got[..3].iter().all(|&y| y == 1) && (got[3] == 1 || got[3] == 5), "{got:?}");
        assert!(other.read().await.unwrap().iter().all(|&x| x == 3));
    }
}

#[tokio::test]
async fn nothing_is_computed_of_nothing() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let empty = batch.upload::<u32>(&[]);
        let of_nothing = batch.wgsl::<u32>(counts(empty, 0), 4);
        let with_groups = batch.wgsl::<u32>(counts(empty, 64), 4);
        let one = batch.upload(&[1_u32]);
        let no_result = batch.wgsl::<u32>(counts(one, 1), [3, 0]);
        batch.execute().await.unwrap();
        for id in [of_nothing, with_groups] {
            assert_eq!(batch.read(id).await.unwrap(), [0; 4]);
        }
        assert!(batch.read(no_result).await.unwrap().is_empty());
    }
}

/// A refusal that only a device can tell is an error of the run, and the device goes on.
#[tokio::test]
async fn what_a_device_refuses_is_an_error() {
    // `other` takes more memory than devices have; `open` alone uses what has no value.
    let source = |size: &str| {
        format!(
            "override unset: f32;
             var<workgroup> large: array<f32, 1000000>;
             @group(0) @binding(0) var<storage, read_write> y: array<f32>;
             @compute @workgroup_size({size}) fn main() {{ y[0] = 1.0; }}
             @compute @workgroup_size(1) fn other() {{ y[0] = large[u32(y[0])]; }}
             @compute @workgroup_size(1) fn open() {{ y[0] = unset; }}"
        )
    };
    for device in common::devices().await.into_iter().filter(Device::is_gpu) {
        let (smaller, spread) = ("make `@workgroup_size` smaller", "spread them along x, y and z");
        let kernels = [
            ("16384", [1; 3], "main", "16384 threads in a workgroup", smaller),
            ("1, 1, 5000", [1; 3], "main", "5000 threads in a workgroup", smaller),
            ("1", [u32::MAX, 1, 1], "main", "4294967295 workgroups along x", spread),
            ("1", [1, 1, u32::MAX], "main", "4294967295 workgroups along z", spread),
            (
                "1",
                [1; 3],
                "other",
                "4000000 bytes of `var<workgroup>`",
                "make these variables smaller",
            ),
        ];
        for (size, groups, entry, asked, cure) in kernels {
            let batch = GpuCommandBatch::new(&device);
            let kernel = Wgsl::new(&source(size)).groups(groups).entry_point(entry);
            batch.wgsl::<f32>(kernel, 1);
            let error = batch.execute().await.expect_err("more than a device has");
            assert!(matches!(error, Error::Device(DeviceError::Kernel { .. })), "{error}");
            let text = error.to_string();
            assert!(text.contains(file!()) && !text.contains("please report"), "{text}");
            let asked = format!("`{entry}` has {asked}, and the device allows ");
            assert!(text.contains(&asked) && text.contains(cure), "{text}");
            let compiled = batch.compile().await.expect_err("more than a device has");
            assert_eq!(compiled.to_string(), text);
        }
        let batch = GpuCommandBatch::new(&device);
        let y = batch.wgsl::<f32>(in_one_group(&source("1")), 2);
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap(), [1.0, 0.0]);
    }
}

#[tokio::test]
async fn residents_are_inputs_of_their_own_device() {
    for device in common::devices().await {
        let x = device.resident(&[1_u32, 1, 3], 3).unwrap();
        let batch = GpuCommandBatch::new(&device);
        let y = batch.wgsl::<u32>(counts(&x, 3), 4);
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap(), [0, 2, 0, 1]);
        let foreign = Device::cpu().resident(&[1_u32], 1).unwrap();
        batch.wgsl::<u32>(counts(&foreign, 1), 4);
        let error = batch.execute().await.unwrap_err().to_string();
        assert!(error.contains(": wgsl: ") && error.contains("the batch is of another"), "{error}");
    }
}

#[tokio::test]
async fn a_kernel_for_the_gpu_alone_runs_there_or_says_so() {
    fn record(batch: &GpuCommandBatch) -> Tensor<'_, u32> {
        let x = batch.upload(&[1_u32, 1, 3]);
        batch.wgsl::<u32>(in_one_group(COUNTS).entry_point("count").input(x), 4)
    }
    let gpu_only = |error: &Error| matches!(error, Error::Plan(PlanError::GpuOnly { place }) if place.contains(file!()));
    let batch = GpuCommandBatch::new(&Device::cpu());
    record(&batch);
    assert!(gpu_only(&batch.execute().await.unwrap_err()));
    assert!(gpu_only(&batch.explain().unwrap_err()));
    if common::gpu().await.is_none() {
        return;
    }
    let device = Device::builder().without_cache().recovery(Recovery::Cpu);
    let both = device.gpu().await.unwrap();
    let with_twin = GpuCommandBatch::new(&both);
    let x = with_twin.upload(&[1_u32, 1, 3]);
    let y = with_twin.wgsl::<u32>(counts(x, 3), 4);
    let without = GpuCommandBatch::new(&both);
    let z = record(&without);
    without.execute().await.unwrap();
    assert_eq!(without.read(z).await.unwrap(), [0, 2, 0, 1]);
    both.simulate_loss();
    assert!(gpu_only(&without.execute().await.unwrap_err()));
    with_twin.execute().await.unwrap();
    assert_eq!(with_twin.read(y).await.unwrap(), [0, 2, 0, 1]);
}

#[tokio::test]
async fn a_panic_of_the_function_for_the_cpu_is_an_error() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload(&[1_u32; 4]);
    let kernel = in_one_group(COUNTS).entry_point("count").input(x);
    let kernel = kernel.on_cpu(|_: &[u32], _: &mut [u32]| panic!("as it may"));
    batch.wgsl::<u32>(kernel, 4);
    let Err(Error::Device(error)) = batch.execute().await else { panic!("it panics") };
    assert!(
        matches!(&error, DeviceError::Panicked { message, .. } if message == "as it may"),
        "{error}"
    );
    assert!(error.to_string().contains(file!()), "{error}");
}

/// A function of the user's own may take long, however small its result: it must not hold up the thread that awaits it.
#[tokio::test]
async fn functions_for_the_cpu_run_off_the_thread_that_awaits_them() {
    let ran_on = Arc::new(Mutex::new(None));
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload(&[1_u32]);
    let here = Arc::clone(&ran_on);
    let kernel = in_one_group(COUNTS).entry_point("count").input(x);
    let kernel = kernel.on_cpu(move |_: &[u32], counts: &mut [u32]| {
        *here.lock().unwrap() = Some(thread::current().id());
        counts[0] = 7;
    });
    let y = batch.wgsl::<u32>(kernel, 1);
    batch.execute().await.unwrap();
    assert_eq!(batch.read(y).await.unwrap(), [7]);
    let ran_on = ran_on.lock().unwrap().expect("it ran");
    assert_ne!(ran_on, thread::current().id());
}

/// A kernel that was recorded anew is not planned again, whatever its function: another source, entry point or grid
/// makes it another kernel.
#[tokio::test]
async fn plans_know_kernels_by_what_they_are() {
    let device = Device::cpu();
    let sum = |by: u32| move |x: &[u32], y: &mut [u32]| y[0] = x[0] + by;
    let product = |x: &[u32], y: &mut [u32]| y[0] = x[0] * 10;
    let run = async |groups: u32, kernel: &dyn Fn(Wgsl) -> Wgsl| {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload(&[4_u32]);
        let recorded = Wgsl::new(COUNTS).entry_point("count").input(x).groups([groups, 1, 1]);
        let y = batch.wgsl::<u32>(kernel(recorded), 1);
        batch.execute().await.unwrap();
        (batch.stats().plan_hits, batch.read(y).await.unwrap()[0])
    };
    assert_eq!(run(1, &|kernel| kernel.on_cpu(sum(1))).await, (0, 5));
    assert_eq!(run(1, &|kernel| kernel.on_cpu(sum(1))).await, (1, 5));
    assert_eq!(run(1, &|kernel| kernel.on_cpu(sum(2))).await, (1, 6));
    assert_eq!(run(1, &|kernel| kernel.on_cpu(product)).await, (1, 40));
    assert_eq!(run(2, &|kernel| kernel.on_cpu(product)).await, (0, 40));
}

/// Functions of one type, which differ by what they have captured alone. Plans outlive batches, what was captured does
/// not.
#[tokio::test]
async fn each_kernel_has_the_function_that_it_was_given() {
    let captured = Arc::new(());
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.input::<u32>("x", 3).id();
    let factors = [7, 8, 9];
    let ids = factors.map(|factor: u32| {
        let held = Arc::clone(&captured);
        let kernel = in_one_group(COUNTS).entry_point("count").input(x);
        let kernel = kernel.on_cpu(move |x: &[u32], y: &mut [u32]| {
            let _held = &held;
            y[0] = x.iter().sum::<u32>() * factor;
        });
        batch.wgsl::<u32>(kernel, 1).id()
    });
    let program = batch.compile().await.unwrap();
    drop(batch);
    for data in [[1_u32, 2, 3], [0, 0, 1]] {
        let outputs = program.run([(x, &data)]).await.unwrap();
        for (id, factor) in ids.into_iter().zip(factors) {
            assert_eq!(outputs.read(id).await.unwrap(), [data.iter().sum::<u32>() * factor]);
        }
    }
    drop(program);
    assert_eq!(Arc::strong_count(&captured), 1);
}

/// The arithmetic of such a kernel is not known: its rate is that of the bytes that it moves.
#[tokio::test]
async fn explanations_and_profiles_count_what_runs() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload(&[1_u32]);
        batch.wgsl::<u32>(counts(x, 1), 16);
        let program = batch.compile().await.unwrap();
        let outputs = program.run(()).await.unwrap();
        assert_eq!(batch.explain().unwrap().dispatches(), outputs.stats().dispatches);
        let profile = program.profile(()).await.unwrap();
        assert_eq!((profile.kernels[0].flops, profile.kernels[0].bytes), (0, 68));
        assert!(!profile.to_string().contains("FLOP"), "{profile}");
    }
}
