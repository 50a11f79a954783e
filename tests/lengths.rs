//! Rows, columns and grids of lengths at which kernels change their ways, against `f64`.

mod common;

use onetrip::{Device, GpuCommandBatch, Tensor};

const LENGTHS: [usize; 11] = [1, 2, 31, 32, 33, 100, 1_024, 4_095, 4_096, 4_097, 100_003];

/// Numbers in −1..1 without a pattern that a kernel could get right by chance.
fn numbers(count: usize) -> Vec<f32> {
    let mut seed = 1_u32;
    let next = |_| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(next).collect()
}

/// The result of `record` for `x`.
async fn run<T: onetrip::Element>(
    device: &Device,
    x: &[f32],
    shape: [usize; 2],
    record: impl FnOnce(Tensor<'_, f32>) -> Tensor<'_, T>,
) -> Vec<T> {
    let batch = GpuCommandBatch::new(device);
    let result = record(batch.upload_shaped(x, shape));
    batch.download(result);
    batch.execute().await.expect("a run");
    batch.read(result).await.expect("what was downloaded")
}

/// The error of a sum of `len` numbers.
fn summing(len: usize) -> f64 {
    1e-6 + 1e-7 * len as f64
}

#[track_caller]
fn near(what: &str, got: &[f32], want: impl Iterator<Item = f64>, tolerance: f64) {
    let mut count = 0;
    for (at, (&got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        assert!(error <= tolerance * (1.0 + want.abs()), "{what}[{at}]: {got} for {want}");
        count += 1;
    }
    assert_eq!(count, got.len(), "{what}");
}

#[tokio::test]
async fn rows_of_every_length() {
    for device in &common::devices().await {
        for len in LENGTHS {
            let x = numbers(3 * len);
            let rows = || x.chunks(len).map(|row| row.iter().map(|&x| f64::from(x)));
            let what = |op: &str| format!("{op} of {len} on {}", device.info().name);

            let got = run(device, &x, [3, len], |x| x.softmax(-1)).await;
            let softmax = rows().flat_map(|row| {
                let total: f64 = row.clone().map(f64::exp).sum();
                row.map(move |x| x.exp() / total)
            });
            near(&what("softmax"), &got, softmax, 1e-6);

            let got = run(device, &x, [3, len], |x| x.layer_norm(1, 1e-3)).await;
            let norm = rows().flat_map(|row| {
                let mean = row.clone().sum::<f64>() / len as f64;
                let square = row.clone().map(|x| (x - mean).powi(2)).sum::<f64>() / len as f64;
                row.map(move |x| (x - mean) / (square + 1e-3).sqrt())
            });
            near(&what("layer_norm"), &got, norm, 2e-5);

            let got = run(device, &x, [3, len], |x| x.sum(1)).await;
            near(&what("sum"), &got, rows().map(Iterator::sum), summing(len));

            let got = run(device, &x, [3, len], |x| x.argmax(1)).await;
            for (row, at) in x.chunks(len).zip(got) {
                let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let first = row.iter().position(|&x| x == greatest);
                assert_eq!(Some(at as usize), first, "{}", what("argmax"));
            }
        }
    }
}

#[tokio::test]
async fn columns_of_every_length() {
    for device in &common::devices().await {
        for (len, width) in LENGTHS.into_iter().flat_map(|len| [(len, 5), (len, 40)]) {
            let x = numbers(width * len);
            let column = |c: usize| (0..len).map(move |k| k * width + c);
            let what = |op: &str| format!("{op} of {len} × {width} on {}", device.info().name);
            let at = |k: usize| f64::from(x[k]);

            let got = run(device, &x, [len, width], |x| x.sum(0)).await;
            let want = (0..width).map(|c| column(c).map(at).sum());
            near(&what("sum"), &got, want, summing(len));

            let got = run(device, &x, [len, width], |x| x.transpose()).await;
            near(&what("transpose"), &got, (0..width).flat_map(column).map(at), 0.0);

            let got = run(device, &x, [len, width], |x| x.log_softmax(0)).await;
            let totals: Vec<f64> =
                (0..width).map(|c| column(c).map(|k| at(k).exp()).sum::<f64>().ln()).collect();
            let want = (0..len * width).map(|k| at(k) - totals[k % width]);
            near(&what("log_softmax"), &got, want, 1e-5);
        }
    }
}

/// More workgroups than one dimension of a dispatch has.
#[tokio::test]
async fn more_results_than_a_line_of_workgroups() {
    const RESULTS: usize = 65_536 * 64 + 77;
    for device in &common::devices().await {
        let x = numbers(RESULTS * 2);
        let got = run(device, &x, [RESULTS, 2], |x| x.amax(1)).await;
        near("amax", &got, x.chunks(2).map(|pair| f64::from(pair[0].max(pair[1]))), 0.0);
    }
}

#[tokio::test]
async fn nothing_to_do_is_no_trip() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let y = batch.upload(&[0.0_f32; 0]).relu();
        batch.execute().await.expect("a run of no elements");
        let stats = batch.stats();
        let counts = [stats.uploads, stats.submits, stats.downloads, stats.dispatches];
        assert_eq!(counts, [0; 4], "{}: {stats}", device.info());
        assert!(batch.read(y).await.expect("a result").is_empty());
    }
}
