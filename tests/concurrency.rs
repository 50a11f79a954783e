//! Many tasks on one device: results are those of one task alone, bit for bit.

mod common;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::thread;

use onetrip::{BufferId, DataError, Device, Error, GpuCommandBatch, SortOrder, Tensor};

const TASKS: usize = 64;

/// Numbers in (−1, 1) that differ from seed to seed.
fn numbers(seed: usize, count: usize) -> Vec<f32> {
    let mut state = (seed as u32).wrapping_mul(2_654_435_769);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// The graph of task `index`: one of six kinds, each in several sizes.
fn record(b: &GpuCommandBatch, index: usize) -> Tensor<'_, f32> {
    let size = 3 + (index * 17) % 61;
    let x = b.upload_shaped(&numbers(index, size * 24), [size, 24]);
    match index % 6 {
        0 => {
            let y = b.gelu(x);
            let y = b.add(x, y);
            b.sin(y)
        }
        1 => {
            let w = b.upload_shaped(&numbers(index + 1, 24 * 10), [24, 10]);
            let bias = b.upload(&numbers(index + 2, 10));
            b.linear(x, w, bias).relu().softmax(-1)
        }
        2 => b.layer_norm(x, -1, 1e-5).square().mean(0),
        3 => {
            let product = b.transpose(x).matmul(x);
            let sum = b.sum(product, ..);
            b.sub(product, sum)
        }
        4 => {
            let flipped = b.flip(x, 0);
            b.concat(&[x, flipped], 1).pad([(1, 2), (0, 0)], 0.25).logsumexp(1)
        }
        _ => {
            let mut y = x;
            for _ in 0..150 {
                y = b.sin(y);
                y = b.add_scalar(y, 0.125);
            }
            y
        }
    }
}

async fn run(device: &Device, index: usize) -> Vec<u32> {
    bits(device.eval(|b| record(b, index)).await.expect("a sound graph"))
}

fn bits(values: Vec<f32>) -> Vec<u32> {
    assert!(!values.is_empty() && values.iter().all(|value| value.is_finite()));
    values.into_iter().map(f32::to_bits).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_get_what_they_would_get_alone() {
    for device in common::devices().await {
        let mut alone = Vec::new();
        for index in 0..TASKS {
            alone.push(run(&device, index).await);
        }
        let tasks: Vec<_> = (0..TASKS)
            .map(|index| {
                let device = device.clone();
                tokio::spawn(async move { run(&device, index).await })
            })
            .collect();
        for (index, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), alone[index], "task {index} on {device:?}");
        }
    }
}

/// Polls `future` at most `times` times, then drops it; whether it was done by then.
async fn polled(future: impl Future, times: usize) -> bool {
    let mut future = pin!(future);
    for _ in 0..times {
        let done = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
        if done {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dropped_runs_disturb_nobody() {
    for device in common::devices().await {
        let tasks: Vec<_> = (0..TASKS)
            .map(|index| {
                let device = device.clone();
                tokio::spawn(async move {
                    if index % 2 == 0 {
                        return run(&device, index).await;
                    }
                    let b = GpuCommandBatch::new(&device);
                    let y = record(&b, index);
                    b.download(y);
                    if !polled(b.execute(), index % 5).await {
                        // A run that was dropped left no result, and none of the run before.
                        assert!(b.read(y).await.is_err());
                    }
                    b.execute().await.unwrap();
                    bits(b.read(y).await.unwrap())
                })
            })
            .collect();
        for (index, task) in tasks.into_iter().enumerate() {
            assert_eq!(
                task.await.unwrap(),
                run(&device, index).await,
                "task {index} on {device:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_run_again_with_other_data_while_others_run() {
    for device in common::devices().await {
        let tasks: Vec<_> = (0..TASKS / 4)
            .map(|index| {
                let device = device.clone();
                tokio::spawn(async move {
                    let count = 100 + 37 * index;
                    let b = GpuCommandBatch::new(&device);
                    let x = b.upload(&vec![0.0_f32; count]);
                    let y = b.scale(x, 2.0).neg();
                    for round in 0..8 {
                        let data = numbers(index * 8 + round, count);
                        b.write(x, &data).unwrap();
                        if round % 3 == 1 {
                            // Dropped midway, it may still read the data that is written over next.
                            polled(b.execute(), 1).await;
                            b.write(x, &data).unwrap();
                        }
                        b.execute().await.unwrap();
                        let want: Vec<f32> = data.iter().map(|x| -2.0 * x).collect();
                        assert_eq!(b.read(y).await.unwrap(), want, "round {round} of {index}");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_share_residents() {
    for device in common::devices().await {
        let data = numbers(7, 32 * 32);
        let shared = device.resident(&data, [32, 32]).unwrap();
        let tasks: Vec<_> = (0..TASKS)
            .map(|index| {
                let (device, shared) = (device.clone(), shared.clone());
                tokio::spawn(async move {
                    let b = GpuCommandBatch::new(&device);
                    let (w, row) = (b.bind(&shared), index % 32);
                    let row = b.slice(w, [(row..row + 1, 1), (0..32, 1)]);
                    let kept = b.keep(row);
                    b.execute().await.unwrap();
                    drop((b, shared));
                    kept.read().await.unwrap()
                })
            })
            .collect();
        for (index, task) in tasks.into_iter().enumerate() {
            let row = index % 32;
            assert_eq!(task.await.unwrap(), data[row * 32..][..32], "task {index}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_tasks_need_at_once_is_compiled_and_brought_once() {
    for round in 0..8 {
        let Some(device) = common::gpu().await else { return };
        let weights = device.resident(&numbers(round, 64), 64).unwrap();
        let tasks: Vec<_> = (0..TASKS)
            .map(|index| {
                let (device, weights) = (device.clone(), weights.clone());
                // In turn one structure, and another with the same kernel.
                let rows = 3 + index % 2;
                tokio::spawn(async move {
                    let b = GpuCommandBatch::new(&device);
                    let (w, x) =
                        (b.bind(&weights), b.upload_shaped(vec![1.0; rows * 64], [rows, 64]));
                    let y = b.mul(x, w);
                    b.execute().await.unwrap();
                    b.read(y).await.unwrap()
                })
            })
            .collect();
        let expected = numbers(round, 64);
        for (index, task) in tasks.into_iter().enumerate() {
            let rows = task.await.unwrap();
            assert!(rows.chunks(64).all(|row| row == expected), "task {index}");
        }
        let metrics = device.metrics();
        assert_eq!((metrics.pipelines_compiled, metrics.resident_bytes_up), (1, 64 * 4));
    }
}

#[tokio::test]
async fn who_compiles_and_is_not_polled_keeps_nobody_waiting() {
    let Some(device) = common::gpu().await else { return };
    let run = async |len: usize| {
        let ran = device.eval(|b| b.full(len, 2.0).erf().mish().cos());
        ran.await.unwrap()
    };
    for len in [3, 5000] {
        let mut first = pin!(run(len));
        let polled = poll_fn(|context| Poll::Ready(first.as_mut().poll(context))).await;
        let others = run(len).await;
        let first = match polled {
            Poll::Ready(done) => done,
            Poll::Pending => first.await,
        };
        assert_eq!(first, others);
    }
}

#[test]
fn all_of_rayon_s_threads_may_want_what_another_thread_has_them_compile() {
    let Some(device) = pollster::block_on(common::gpu()) else { return };
    let run = || {
        let ran = device.eval(|b| b.full(100, 2.0).tanh().cos());
        async { ran.await.unwrap() }
    };
    let all = Barrier::new(rayon::current_num_threads() + 1);
    let (first, others) = thread::scope(|scope| {
        let others = scope.spawn(|| {
            rayon::broadcast(|_| {
                all.wait();
                // Now it is compiled by whichever of them is free.
                all.wait();
                pollster::block_on(run())
            })
        });
        all.wait();
        let mut first = pin!(run());
        let polled = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        all.wait();
        assert!(polled.is_pending());
        (pollster::block_on(first), others.join().unwrap())
    });
    assert!(others.iter().all(|other| *other == first));
}

#[test]
fn what_tasks_share_and_move_is_send() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    fn shared<T: Send + Sync>() {}
    shared::<Device>();
    shared::<GpuCommandBatch>();
    shared::<BufferId<f32>>();
    shared::<onetrip::Resident<f32>>();
    shared::<Error>();
    let b = GpuCommandBatch::new(&Device::cpu());
    drop(sent(b.execute()));
    drop(sent(Device::gpu()));
}

#[tokio::test]
async fn an_upload_is_changed_by_one_call_at_a_time() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload(&[1.0_f32, 2.0]);
    let y = -x;
    batch
        .write_with(x, |data| {
            data[0] = 3.0;
            for refused in [batch.write_with(x, |data| data[1] = 7.0), batch.write(x, &[5.0, 6.0])]
            {
                let error = refused.unwrap_err();
                assert!(matches!(error, Error::Data(DataError::BeingChanged(_))), "{error}");
            }
            let run = pollster::block_on(batch.execute()).unwrap_err();
            assert!(matches!(run, Error::Data(DataError::BeingChanged(_))), "{run}");
            let program = pollster::block_on(batch.compile()).unwrap_err();
            assert!(matches!(program, Error::Data(DataError::BeingChanged(_))), "{program}");
        })
        .unwrap();
    batch.execute().await.unwrap();
    assert_eq!(batch.read(y).await.unwrap(), [-3.0, -2.0]);
    batch.write(x, &[5.0, 6.0]).unwrap();
    batch.write_with(x, |data| data[1] = 7.0).unwrap();
    batch.execute().await.unwrap();
    assert_eq!(batch.read(y).await.unwrap(), [-5.0, -7.0]);
}

#[test]
fn large_work_on_the_cores_needs_no_thread_of_rayon() {
    const LEN: usize = 1 << 20;
    const N: usize = 1 << 11;
    let device = Device::cpu();
    let all = Barrier::new(rayon::current_num_threads() + 1);
    let (sorted, product) = thread::scope(|scope| {
        // All of rayon's threads wait until the runs are done.
        scope.spawn(|| rayon::broadcast(|_| (all.wait(), all.wait())));
        all.wait();
        let sorted = pollster::block_on(
            device.eval(|b| b.arange(0.0_f32, LEN as f32, 1.0).sort(0, SortOrder::Descending)),
        );
        let product = pollster::block_on(device.eval(|b| {
            let rows = b.arange(0.0_f32, N as f32, 1.0).reshape([N, 1]);
            (rows + b.full([1, N], 1.0_f32)).matmul(b.full([N, N], 1.0_f32))
        }));
        all.wait();
        (sorted.unwrap(), product.unwrap())
    });
    assert!(sorted.iter().rev().enumerate().all(|(at, &value)| value == at as f32));
    let mut rows = product.chunks(N).enumerate();
    assert!(rows.all(|(at, row)| row.iter().all(|&sum| sum == (N * (1 + at)) as f32)));
}
