//! Large uploads go in waves: what comes out is the same, whatever happens between two of them.

#![cfg(feature = "gpu")]

mod common;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use half::f16;
use onetrip::{
    Axes, Backend, Curve, Device, DeviceBuilder, Error, GpuCommandBatch, Program, Recovery,
};

/// Rows and columns of a layer's weights.
const WIDTH: usize = 48;
/// Elements of them.
const AREA: usize = WIDTH * WIDTH;
const LAYERS: usize = 4;

/// A device that is said to be a hardware GPU and so slow that small uploads are large, or `None` where there is no
/// adapter.
async fn slow(change: impl Fn(DeviceBuilder) -> DeviceBuilder) -> Option<Device> {
    let mut profile = common::gpu().await?.profile();
    profile.gpu.threads = 0;
    profile.gpu.upload = Curve::flat(1e6);
    profile.gpu.memory = Curve::flat(1e6);
    let builder = Device::builder().without_cache().without_learning().with_profile(profile);
    Some(change(builder).gpu().await.expect("the adapter that was there"))
}

async fn any_slow() -> Option<Device> {
    slow(|builder| builder).await
}

/// Whole numbers that stay so small that sums of products are exact.
fn whole_numbers(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 13 + seed * 5) % 3) as f32 - 1.0).collect()
}

fn weights(seed: usize) -> Vec<Vec<f32>> {
    (0..=LAYERS).map(|layer| whole_numbers(seed + layer, AREA)).collect()
}

/// min(x·w, 1), `LAYERS` times, where each layer brings its own w.
struct Layers {
    program: Program,
    inputs: Vec<onetrip::BufferId<f32>>,
    y: onetrip::BufferId<f32>,
}

impl Layers {
    async fn new(device: &Device) -> Self {
        let batch = GpuCommandBatch::new(device);
        let name = |layer| format!("input {layer}");
        let inputs: Vec<_> =
            (0..=LAYERS).map(|at| batch.input::<f32>(&name(at), [WIDTH, WIDTH])).collect();
        let mut y = inputs[0];
        for &w in &inputs[1..] {
            let product = batch.matmul(y, w);
            y = batch.clip(product, -1.0, 1.0);
        }
        batch.download(y);
        let page = batch.explain().expect("a sound graph").to_string();
        assert!(page.contains(" in 4 waves"), "{page}");
        let inputs = inputs.iter().map(|input| input.id()).collect();
        Self { program: batch.compile().await.expect("a sound graph"), inputs, y: y.id() }
    }

    fn given<'a>(&self, data: &'a [Vec<f32>]) -> Vec<(onetrip::BufferId<f32>, &'a [f32])> {
        self.inputs.iter().copied().zip(data.iter().map(|data| &data[..])).collect()
    }
}

fn by_hand(data: &[Vec<f32>]) -> Vec<f32> {
    let mut x = data[0].clone();
    for w in &data[1..] {
        let element = |at: usize| {
            let (row, column) = (at / WIDTH, at % WIDTH);
            let sum: f32 = (0..WIDTH).map(|k| x[row * WIDTH + k] * w[k * WIDTH + column]).sum();
            sum.clamp(-1.0, 1.0)
        };
        x = (0..AREA).map(element).collect();
    }
    x
}

/// Fails instead of hanging.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("hangs")
}

#[tokio::test]
async fn each_layer_is_submitted_when_its_weights_have_come() {
    let Some(device) = any_slow().await else { return };
    let layers = Layers::new(&device).await;
    for seed in 0..5 {
        let data = weights(seed);
        let outputs = soon(layers.program.run(layers.given(&data))).await.unwrap();
        assert_eq!(outputs.read(layers.y).await.unwrap(), by_hand(&data), "{seed}");
        let stats = outputs.stats();
        assert_eq!([stats.uploads, stats.submits, stats.downloads], [4, 4, 1], "{stats}");
        let bytes = (4 * AREA * (LAYERS + 1)) as u64;
        assert_eq!(stats.bytes_up.max(bytes), stats.bytes_up, "{stats}");
        assert_eq!(stats.bytes_up == bytes, seed > 0, "parameters travel with the first: {stats}");
        assert_eq!((stats.bytes_down, stats.dispatches), (4 * AREA as u64, 4), "{stats}");
    }
}

/// A device on the host's threads does nothing while these pack.
#[tokio::test]
async fn all_goes_at_once_to_a_device_on_the_threads_of_the_host() {
    let Some(device) = any_slow().await else { return };
    let mut profile = device.profile();
    profile.gpu.threads = 2;
    let builder = Device::builder().without_cache().without_learning().with_profile(profile);
    let device = builder.gpu().await.unwrap();
    let batch = GpuCommandBatch::new(&device);
    let data = weights(2);
    let mut layers = data.iter().map(|data| batch.upload_shaped(data, [WIDTH, WIDTH]));
    let x = layers.next().unwrap();
    let y = layers.fold(x, |y, w| y.matmul(w).clip(-1.0, 1.0));
    let page = batch.explain().unwrap().to_string();
    assert!(!page.contains(" waves"), "{page}");
    soon(batch.execute()).await.unwrap();
    assert_eq!(batch.read(y).await.unwrap(), by_hand(&data));
    let stats = batch.stats();
    assert_eq!([stats.uploads, stats.submits, stats.downloads], [1, 1, 1], "{stats}");
}

#[tokio::test]
async fn runs_whose_times_are_taken_are_submitted_at_once() {
    let Some(device) = any_slow().await else { return };
    let layers = Layers::new(&device).await;
    let data = weights(3);
    let profile = soon(layers.program.profile(layers.given(&data))).await.unwrap();
    assert_eq!((profile.stats.uploads, profile.stats.submits), (1, 1), "{}", profile.stats);
}

/// Parts of a MiB each, which several threads pack.
#[tokio::test]
async fn large_waves_of_every_type_arrive_whole() {
    const ROWS: usize = 3 << 17;
    let Some(device) = any_slow().await else { return };
    let batch = GpuCommandBatch::new(&device);
    let halves: Vec<f16> = (0..8 * ROWS).map(|at| f16::from_f32((at % 1000) as f32)).collect();
    let truths: Vec<bool> = (0..8 * ROWS).map(|at| at % 7 == 3).collect();
    let numbers: Vec<i32> = (0..8 * ROWS).map(|at| (at % 2000) as i32 - 9).collect();
    let greatest = batch.upload_shaped(&halves, [ROWS, 8]).amax(Axes::from(1).keep_dims());
    batch.download(greatest);
    let truth = batch.upload_shaped(&truths, [ROWS, 8]);
    let number = batch.upload_shaped(&numbers, [ROWS, 8]).cast::<f16>();
    let picked = batch.select(truth, number, greatest);
    batch.download(picked);
    soon(batch.execute()).await.unwrap();
    assert!(batch.stats().submits > 1, "{}", batch.stats());
    let (greatest, picked) =
        (batch.read(greatest).await.unwrap(), batch.read(picked).await.unwrap());
    for (row, halves) in halves.chunks(8).enumerate() {
        let want = halves.iter().copied().fold(f16::NEG_INFINITY, f16::max);
        assert_eq!(greatest[row], want, "{row}");
        for at in 8 * row..8 * row + 8 {
            let want = if truths[at] { f16::from_f32(numbers[at] as f32) } else { want };
            assert_eq!(picked[at], want, "{at}");
        }
    }
}

#[tokio::test]
async fn a_loss_between_waves_costs_a_repetition() {
    for recovery in [Recovery::Reopen, Recovery::Cpu] {
        let Some(device) = slow(|builder| builder.recovery(recovery)).await else { return };
        let layers = Layers::new(&device).await;
        for seed in 0..12 {
            let data = weights(seed);
            let loser = device.clone();
            let lose = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(100 * seed as u64));
                loser.simulate_loss();
            });
            let outputs = soon(layers.program.run(layers.given(&data))).await.unwrap();
            assert_eq!(
                outputs.read(layers.y).await.unwrap(),
                by_hand(&data),
                "{recovery:?} {seed}"
            );
            lose.join().unwrap();
        }
    }
}

#[tokio::test]
async fn who_gives_up_leaves_nothing() {
    let Some(device) = any_slow().await else { return };
    let layers = Layers::new(&device).await;
    let data = weights(1);
    soon(layers.program.run(layers.given(&data))).await.unwrap();
    let live = || device.pool_stats().gpu.live_bytes;
    let before = live();
    for polls in 0..6 {
        let mut run = pin!(layers.program.run(layers.given(&data)));
        for _ in 0..polls {
            if poll_fn(|context| Poll::Ready(run.as_mut().poll(context).is_ready())).await {
                break;
            }
        }
    }
    soon(async {
        while live() > before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let outputs = soon(layers.program.run(layers.given(&data))).await.unwrap();
    assert_eq!(outputs.read(layers.y).await.unwrap(), by_hand(&data));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_within_a_budget() {
    let Some(device) = slow(|builder| builder.memory_budget(1 << 20)).await else { return };
    let layers = std::sync::Arc::new(Layers::new(&device).await);
    let runs: Vec<_> = (0..64)
        .map(|seed| {
            let layers = std::sync::Arc::clone(&layers);
            tokio::spawn(async move {
                let data = weights(seed);
                let outputs = layers.program.run(layers.given(&data)).await.unwrap();
                assert_eq!(outputs.stats().backend, Some(Backend::Gpu));
                assert_eq!(outputs.read(layers.y).await.unwrap(), by_hand(&data), "{seed}");
            })
        })
        .collect();
    for run in runs {
        soon(run).await.unwrap();
    }
}

#[tokio::test]
async fn what_fails_in_any_wave_is_told_with_its_place() {
    let Some(device) = any_slow().await else { return };
    for bad in [None, Some(0), Some(1), Some(2)] {
        let batch = GpuCommandBatch::new(&device);
        let mut x = batch.upload_shaped(whole_numbers(1, AREA), [WIDTH, WIDTH]);
        for layer in 0..3 {
            let mut rows: Vec<u32> = (0..WIDTH as u32).rev().collect();
            if bad == Some(layer) {
                rows[7] = WIDTH as u32;
            }
            let rows = batch.upload(&rows);
            let w = batch.upload_shaped(whole_numbers(layer, AREA), [WIDTH, WIDTH]);
            let y = batch.gather(x, rows, 0);
            x = batch.matmul(y, w);
        }
        batch.download(x);
        let ran = soon(batch.execute()).await;
        match bad {
            None => assert!(batch.stats().submits > 1, "{}", batch.stats()),
            Some(_) => {
                let error = ran.unwrap_err();
                assert!(matches!(error, Error::Fault(_)), "{error}");
                assert!(error.to_string().contains("gather"), "{error}");
            }
        }
    }
}

/// Graphs of sums and products in which inputs appear anywhere, and are used anywhere.
#[tokio::test]
async fn random_graphs_give_what_others_give() {
    let Some(device) = any_slow().await else { return };
    let others = common::devices().await;
    let mut most = 0;
    for seed in 0..40_u64 {
        let record = |device: &Device| {
            let mut state = seed * 2 + 1;
            let mut random = move |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % below
            };
            let batch = GpuCommandBatch::new(device);
            let mut values = vec![batch.upload_shaped(whole_numbers(1, AREA), [WIDTH, WIDTH])];
            for at in 0..12 {
                let (a, b) = (values[random(values.len())], values[random(values.len())]);
                values.push(match random(4) {
                    0 => batch.upload_shaped(whole_numbers(at, AREA), [WIDTH, WIDTH]),
                    1 => batch.sub(a, b),
                    2 => batch.permute(a, [1, 0]),
                    _ => batch.matmul(a, b).clip(-2.0, 2.0),
                });
                if random(4) == 0 {
                    batch.download(values[at]);
                }
            }
            batch.download(values[12]);
            let values: Vec<_> = values.iter().map(|value| value.id()).collect();
            (batch, values)
        };
        let (batch, values) = record(&device);
        soon(batch.execute()).await.unwrap();
        most = most.max(batch.stats().submits);
        for other in &others {
            let (other, _) = record(other);
            other.execute().await.unwrap();
            assert_eq!(other.stats().submits, 1);
            for &value in &values {
                if let Ok(want) = other.read(value).await {
                    assert_eq!(batch.read(value).await.unwrap(), want, "seed {seed}");
                }
            }
        }
    }
    assert!(most > 3, "they went in {most} waves");
}
