//! Data that stays on the device: what is kept is what was computed, whatever kind of value it is.

#[path = "../common/mod.rs"]
mod common;
mod parts;

use onetrip::{Device, GpuCommandBatch, Resident, Wgsl};

const DATA: [f32; 6] = [1.0, -2.0, 3.0, -4.0, 5.0, -6.0];

#[tokio::test]
async fn a_result_kept_twice_fills_both() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let x = b.upload(&DATA);
        let y = b.neg(x);
        let (first, second) = (b.keep(y), b.keep(y));
        b.download(y);
        b.execute().await.unwrap();
        let want = DATA.map(|x| -x);
        assert_eq!(b.read(y).await.unwrap(), want);
        assert_eq!(first.read().await.unwrap(), want);
        assert_eq!(second.read().await.unwrap(), want);
    }
}

/// Writes and runs that update take turns: each run doubles all that it finds.
#[tokio::test]
async fn a_write_replaces_what_runs_read_next() {
    for device in common::devices().await {
        let state = device.resident(&DATA, [2, 3]).unwrap();
        let b = GpuCommandBatch::new(&device);
        let old = b.bind(&state);
        b.update(&state, old * 2.0);
        let before = old.download();
        let program = b.compile().await.unwrap();
        for copied in [false, true] {
            if copied {
                state.keep_host_copy().await.unwrap();
            }
            state.write(&[1.5; 6]).await.unwrap();
            assert_eq!(state.read().await.unwrap(), [1.5; 6]);
            let first = program.run(()).await.unwrap();
            assert_eq!(first.read(before).await.unwrap(), [1.5; 6]);
            assert_eq!(state.read().await.unwrap(), [3.0; 6]);
            let (written, ran) = tokio::join!(state.write(&[5.0; 6]), program.run(()));
            written.unwrap();
            let found = ran.unwrap().read(before).await.unwrap()[0];
            let want = if found == 5.0 { 10.0 } else { 5.0 };
            assert_eq!(state.read().await.unwrap(), [want; 6]);
        }
        let kept = b.keep(old);
        kept.write(&DATA).await.unwrap();
        assert_eq!(kept.read().await.unwrap(), DATA, "a resident that no run filled");
    }
}

#[tokio::test]
async fn a_value_and_its_reshape_are_kept_both() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let x = b.upload(&DATA);
        let y = b.neg(x);
        let z = b.reshape(y, [2, 3]);
        let (flat, folded) = (b.keep(y), b.keep(z));
        let turned = b.transpose(z);
        let turned = b.keep(turned);
        b.execute().await.unwrap();
        assert_eq!(folded.shape().dims(), [2, 3]);
        assert_eq!(flat.read().await.unwrap(), DATA.map(|x| -x));
        assert_eq!(folded.read().await.unwrap(), DATA.map(|x| -x));
        assert_eq!(turned.shape().dims(), [3, 2]);
        assert_eq!(turned.read().await.unwrap(), [-1.0, 4.0, 2.0, -5.0, -3.0, 6.0]);
    }
}

#[tokio::test]
async fn an_upload_can_be_kept() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let x = b.upload(&DATA);
        let (kept, y) = (b.keep(x), b.square(x));
        b.download(y);
        b.execute().await.unwrap();
        assert_eq!(kept.read().await.unwrap(), DATA);
        assert_eq!(b.read(y).await.unwrap(), DATA.map(|x| x * x));
        // A later write leaves alone what was kept, until the batch runs again.
        b.write(x, &[0.5; 6]).unwrap();
        assert_eq!(kept.read().await.unwrap(), DATA);
        b.execute().await.unwrap();
        assert_eq!(kept.read().await.unwrap(), [0.5; 6]);
    }
}

#[tokio::test]
async fn a_resident_can_be_kept_again() {
    for device in common::devices().await {
        let source = device.resident(&DATA, [6]).unwrap();
        let b = GpuCommandBatch::new(&device);
        let x = b.bind(&source);
        let kept = b.keep(x);
        b.execute().await.unwrap();
        drop(source);
        drop(b);
        assert_eq!(kept.read().await.unwrap(), DATA);
    }
}

#[tokio::test]
async fn every_element_type_comes_back() {
    use onetrip::f16;
    for device in common::devices().await {
        let halves = [1.5, -0.0, 65504.0].map(f16::from_f32);
        let truths = [true, false, true, true, false];
        let (h, t) = (device.resident(&halves, [3]), device.resident(&truths, [5, 1]));
        let (h, t) = (h.unwrap(), t.unwrap());
        let b = GpuCommandBatch::new(&device);
        let (x, y) = (b.bind(&h), b.bind(&t));
        let (x, y) = (b.neg(x), b.not(y));
        let (x, y) = (b.keep(x), b.keep(y));
        b.execute().await.unwrap();
        assert_eq!(h.read().await.unwrap(), halves);
        assert_eq!(t.read().await.unwrap(), truths);
        assert_eq!(x.read().await.unwrap(), halves.map(|x| -x));
        assert_eq!(y.read().await.unwrap(), truths.map(|x| !x));
    }
}

/// A state that each step replaces, as an optimiser's or a recurrent network's.
#[tokio::test]
async fn a_state_goes_from_batch_to_batch() {
    for device in common::devices().await {
        let mut state: Resident<f32> = device.resident(&[1.0, 2.0, 3.0], [3]).unwrap();
        for _ in 0..20 {
            let b = GpuCommandBatch::new(&device);
            let s = b.bind(&state).scale(0.5).add_scalar(1.0);
            let next = b.keep(s);
            b.execute().await.unwrap();
            assert_eq!(b.stats().downloads, 0, "{}", b.stats());
            state = next;
        }
        // 2 + (x − 2)·2⁻²⁰, exact in f32 but for the last rounding.
        let want = [1.0_f32, 2.0, 3.0].map(|x| 2.0 + (x - 2.0) / f32::exp2(20.0));
        for (got, want) in state.read().await.unwrap().into_iter().zip(want) {
            assert!((got - want).abs() <= 2.5e-7, "{got} {want}");
        }
    }
}

#[tokio::test]
async fn a_run_replaces_what_the_run_before_kept() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let x = b.upload(&[1, 2]);
        let y = b.square(x);
        let kept = b.keep(y);
        b.execute().await.unwrap();
        let user = GpuCommandBatch::new(&device);
        let k = user.bind(&kept);
        let sum = user.sum(k, ..);
        user.execute().await.unwrap();
        assert_eq!(user.read(sum).await.unwrap(), [5]);
        b.write(x, &[3, -4]).unwrap();
        b.execute().await.unwrap();
        user.execute().await.unwrap();
        assert_eq!(user.read(sum).await.unwrap(), [25]);
    }
}

#[tokio::test]
async fn what_is_kept_leaves_other_results_to_be_read() {
    for device in &common::devices().await {
        let batch = GpuCommandBatch::new(device);
        let h = batch.upload(&[1.0_f32, -2.0]).relu();
        let kept = batch.keep(h);
        let y = batch.scale(h, 3.0);
        batch.execute().await.expect("it runs");
        assert_eq!(batch.read(y).await.expect("a result nobody reads"), [3.0, 0.0]);
        assert_eq!(kept.read().await.expect("it was filled"), [1.0, 0.0]);
        assert!(batch.read(h).await.is_err(), "it was kept, not downloaded");
    }
}

/// Tasks that all add to one sum: a run that read the sum before another replaced it would lose what that added.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_that_update_a_resident_take_turns() {
    for device in common::devices().await {
        let total = device.resident(&[0.0_f32; 5], 5).unwrap();
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", 5);
        let new = batch.bind(&total).add(x);
        batch.update(&total, new);
        let (program, x) = (batch.compile().await.unwrap(), x.id());
        let tasks = (1..=8).map(|task| {
            let program = program.clone();
            tokio::spawn(async move {
                for _ in 0..25 {
                    program.run([(x, &[task as f32; 5])]).await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let sum = 25.0 * (1..=8).sum::<i32>() as f32;
        assert_eq!(total.read().await.unwrap(), [sum; 5]);
        // A batch that is executed itself takes its turn too.
        batch.write(x, &[1.0; 5]).unwrap();
        batch.execute().await.unwrap();
        assert_eq!(total.read().await.unwrap(), [sum + 1.0; 5]);
    }
}

#[tokio::test]
async fn a_value_of_another_shape_is_no_new_state() {
    let device = Device::cpu();
    let state = device.resident(&[0.0_f32; 4], [2, 2]).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.upload(&[1.0_f32; 4]);
    batch.update(&state, x);
    let error = batch.execute().await.unwrap_err().to_string();
    let mistake = "update: a resident of shape [2, 2] cannot take a value of shape [4]; \
                   make it of the shape of the resident, as by `reshape` or `broadcast_to`";
    assert!(error.ends_with(mistake), "{error}");
    assert_eq!(state.read().await.unwrap(), [0.0; 4]);
}

#[tokio::test]
async fn a_run_has_one_new_value_for_a_state() {
    let device = Device::cpu();
    let state = device.resident(&[0.0_f32; 4], 4).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.upload(&[1.0_f32; 4]);
    let y = batch.neg(x);
    batch.update(&state, x);
    batch.update(&state, y);
    let error = batch.execute().await.unwrap_err().to_string();
    assert!(
        error.contains("update: the batch has a new value for this resident already"),
        "{error}"
    );
    assert_eq!(state.read().await.unwrap(), [0.0; 4]);
}

#[tokio::test]
async fn a_resident_that_is_read_often_counts_once() {
    for device in common::devices().await {
        let w = device.resident(&vec![0.5_f32; 64 * 64], [64, 64]).expect("room");
        let peak = |times: usize| {
            let batch = GpuCommandBatch::new(&device);
            let mut x = batch.upload_shaped(&[1.0_f32; 64], [1, 64]);
            for _ in 0..times {
                x = x.matmul(&w).relu();
            }
            x.matmul(batch.bind(&w)).download();
            let plan = batch.explain().expect("a plan");
            (plan.peak_bytes(), plan.to_string())
        };
        let ((once, _), (often, page)) = (peak(2), peak(9));
        assert_eq!(often, once, "{page}");
        assert!(page.contains("1 resident (16.0 KiB)"), "{page}");
    }
}

/// Two residents in turns, bound and as operands, with an update of one of them at its second read.
#[tokio::test]
async fn residents_that_are_read_in_turns_keep_their_values() {
    for device in common::devices().await {
        let [a, b] = [[1.0_f32, 2.0], [8.0, 16.0]].map(|x| device.resident(&x, 2).expect("room"));
        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload(&[0.5_f32, 0.25]);
        let y = (((x + &a) * &b) - &a) / batch.bind(&b);
        let source = "
            @group(0) @binding(0) var<storage, read> x: array<f32>;
            @group(0) @binding(1) var<storage, read> again: array<f32>;
            @group(0) @binding(2) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(2) fn main(@builtin(local_invocation_index) i: u32) {
                y[i] = x[i] + again[i];
            }";
        let kernel = Wgsl::new(source).input(&a).input(&a).groups([1, 1, 1]);
        let kernel = kernel.on_cpu(|x: &[f32], again: &[f32], y: &mut [f32]| {
            for (at, y) in y.iter_mut().enumerate() {
                *y = x[at] + again[at];
            }
        });
        let twice = batch.wgsl::<f32>(kernel, 2);
        batch.update(&b, batch.bind(&b).replace_slice(batch.upload(&[7.0_f32]), 0, 1));
        batch.outputs([y, twice]);
        batch.execute().await.expect("a run");
        assert_eq!(batch.read(y).await.expect("a result"), [1.375, 2.125]);
        assert_eq!(batch.read(twice).await.expect("a result"), [2.0, 4.0]);
        assert_eq!(b.read().await.expect("a value"), [8.0, 7.0]);
    }
}
