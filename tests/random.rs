//! Random numbers: the published words, statistics with fixed seeds, independence of streams, and the same numbers on
//! every device.

mod common;

use onetrip::{Device, Element, GpuCommandBatch, Tensor};

const COUNT: usize = 200_000;

/// The result of `record`.
async fn run<T: Element>(
    device: &Device,
    record: impl FnOnce(&GpuCommandBatch) -> Tensor<'_, T>,
) -> Vec<T> {
    let batch = GpuCommandBatch::new(device);
    let result = record(&batch);
    batch.download(result);
    batch.execute().await.expect("a run");
    batch.read(result).await.expect("what was downloaded")
}

/// Mean and variance.
fn moments(x: &[f32]) -> [f64; 2] {
    let n = x.len() as f64;
    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    [mean, x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n]
}

fn correlation(x: &[f32], y: &[f32]) -> f64 {
    let ([a, v], [b, w]) = (moments(x), moments(y));
    let products = x.iter().zip(y).map(|(&x, &y)| (f64::from(x) - a) * (f64::from(y) - b));
    products.sum::<f64>() / x.len() as f64 / (v * w).sqrt()
}

/// The first words of `kat_vectors` of Random123, and others of an implementation in Python with large integers.
#[tokio::test]
async fn words_are_those_of_philox() {
    for device in &common::devices().await {
        let words = run(device, |b| b.random_bits([3], 0, 0)).await;
        assert_eq!(words, [0x6627_e8d5, KNOWN[0], KNOWN[1]]);
        let seed = 0x299f_31d0_a409_3822;
        let words = run(device, |b| b.random_bits([3], seed, 0x0370_7344_1319_8a2e)).await;
        assert_eq!(words, KNOWN[2..]);
    }
}

const KNOWN: [u32; 5] = [0xf8e4_cca4, 0x04fa_a329, 0xb60a_410e, 0x314d_db4b, 0x84c5_a1a3];

#[tokio::test]
async fn the_same_numbers_on_every_device_and_in_every_run() {
    let mut first = None;
    for device in &common::devices().await {
        for _ in 0..2 {
            let batch = GpuCommandBatch::new(device);
            let bits = batch.random_bits([COUNT], 3, 4);
            let uniform = batch.random_uniform::<f32>([COUNT], 3, 4);
            let coins = batch.random_bernoulli([COUNT], 0.3, 3, 4);
            let normal = batch.random_normal::<f32>([COUNT], 3, 4);
            batch.execute().await.expect("a run");
            let got = (
                batch.read(bits).await.expect("bits"),
                batch.read(uniform).await.expect("uniform numbers"),
                batch.read(coins).await.expect("truths"),
            );
            let normal = batch.read(normal).await.expect("normal numbers");
            let (exact, near) = first.get_or_insert_with(|| (got.clone(), normal.clone()));
            assert!(*exact == got, "{}", device.info().name);
            for (a, b) in near.iter().zip(&normal) {
                assert!((a - b).abs() <= 3e-6 * (1.0 + a.abs()), "{a} and {b}");
            }
        }
    }
}

#[tokio::test]
async fn moments_are_those_of_the_distributions() {
    let n = COUNT as f64;
    for device in &common::devices().await {
        for seed in [0, 1, u64::MAX] {
            let uniform = run(device, |b| b.random_uniform::<f32>([COUNT], seed, 9)).await;
            assert!(uniform.iter().all(|x| (0.0..1.0).contains(x)));
            let [mean, variance] = moments(&uniform);
            // Five standard errors.
            assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0 / n).sqrt(), "{mean}");
            assert!((variance - 1.0 / 12.0).abs() < 5.0 * (1.0 / 180.0 / n).sqrt(), "{variance}");

            let normal = run(device, |b| b.random_normal::<f32>([COUNT], seed, 9)).await;
            let [mean, variance] = moments(&normal);
            assert!(mean.abs() < 5.0 / n.sqrt(), "{mean}");
            assert!((variance - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{variance}");
            let beyond = normal.iter().filter(|x| x.abs() > 1.959_964).count() as f64 / n;
            assert!((beyond - 0.05).abs() < 5.0 * (0.05 * 0.95 / n).sqrt(), "{beyond}");
            let fourth = normal.iter().map(|&x| f64::from(x).powi(4)).sum::<f64>() / n;
            assert!((fourth - 3.0).abs() < 5.0 * (96.0 / n).sqrt(), "{fourth}");

            let coins = run(device, |b| b.random_bernoulli([COUNT], 0.2, seed, 9)).await;
            let share = coins.iter().filter(|&&coin| coin).count() as f64 / n;
            assert!((share - 0.2).abs() < 5.0 * (0.2 * 0.8 / n).sqrt(), "{share}");
            assert!(coins.iter().zip(&uniform).all(|(&coin, &x)| coin == (x < 0.2)));
        }
    }
}

#[tokio::test]
async fn streams_seeds_and_neighbours_are_independent() {
    let device = Device::cpu();
    let normal =
        async |seed, stream| run(&device, |b| b.random_normal::<f32>([COUNT], seed, stream)).await;
    let base = normal(5, 0).await;
    let limit = 5.0 / (COUNT as f64).sqrt();
    for (seed, stream) in [(5, 1), (5, 1 << 32), (6, 0), (5 + (1 << 32), 0)] {
        let r = correlation(&base, &normal(seed, stream).await);
        assert!(r.abs() < limit, "seed {seed}, stream {stream}: {r}");
    }
    for lag in [1, 2, 64] {
        let r = correlation(&base[lag..], &base[..COUNT - lag]);
        assert!(r.abs() < limit, "lag {lag}: {r}");
    }
}

/// All bits of the words are as often 0 as 1, and equally in each byte's 256 values (χ², at 5σ).
#[tokio::test]
async fn bits_are_even() {
    let words = run(&Device::cpu(), |b| b.random_bits([COUNT], 11, 12)).await;
    for byte in 0..4 {
        let mut counts = [0.0; 256];
        words.iter().for_each(|word| counts[(word >> (8 * byte) & 255) as usize] += 1.0);
        let expected = COUNT as f64 / 256.0;
        let squares: f64 = counts.iter().map(|c: &f64| (c - expected).powi(2) / expected).sum();
        assert!((squares - 255.0).abs() < 5.0 * (2.0_f64 * 255.0).sqrt(), "byte {byte}: {squares}");
    }
}

#[tokio::test]
async fn dropout_keeps_the_mean() {
    for device in &common::devices().await {
        let kept = run(device, |b| b.dropout(b.full([COUNT], 2.0_f32), 0.25, 1, 2)).await;
        assert!(kept.iter().all(|&x| x == 0.0 || (x - 2.0 / 0.75).abs() < 1e-6));
        let [mean, _] = moments(&kept);
        assert!((mean - 2.0).abs() < 0.03, "{mean}");
        for (p, want) in [(0.0, f32::NAN), (1.0, 0.0)] {
            let got = run(device, |b| b.dropout(b.full([3], f32::NAN), p, 1, 2)).await;
            assert!(
                got.iter().all(|x| x.to_bits() == want.to_bits() || x.is_nan() && want.is_nan())
            );
        }
    }
}

#[tokio::test]
async fn permutations_have_each_number_once() {
    let mut first: Option<Vec<u32>> = None;
    for device in &common::devices().await {
        for n in [0, 1, 1000, 50_000] {
            let order = run(device, |b| b.random_permutation(n, 8, 9)).await;
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..n as u32), "{n} on {}", device.info().name);
            // A number stays in its place once on average.
            let fixed = order.iter().enumerate().filter(|&(at, &p)| at == p as usize).count();
            assert!(n < 2 || fixed < 8, "{fixed} of {n}");
            if n == 50_000 {
                assert_eq!(*first.get_or_insert_with(|| order.clone()), order);
            }
        }
    }
}

#[test]
fn mistakes_are_told() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    batch.upload(&[1.0_f32]).dropout(1.5, 0, 0);
    batch.random_bernoulli([2], f32::NAN, 0, 0);
    batch.random_bits([1 << 20, 1 << 13], 0, 0);
    let told = batch.check_recorded().expect_err("three mistakes").to_string();
    for part in ["dropout", "p must be in 0..=1, not 1.5", "not NaN", "random_bits"] {
        assert!(told.contains(part), "{told}");
    }
}
