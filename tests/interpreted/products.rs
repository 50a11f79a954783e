//! Short products of a resident, which later runs find in memory, and products that follow each other.

use onetrip::{Device, GpuCommandBatch, Tensor};

use crate::float64::near;
use crate::numbers;

/// An operation on a sum and an element beside it.
type Epilogue =
    (for<'b> fn(Tensor<'b, f32>, Tensor<'b, f32>) -> Tensor<'b, f32>, fn(f64, f64) -> f64);

const EPILOGUES: [Epilogue; 3] = [
    (|sum, _| sum, |sum, _| sum),
    (|sum, beside| (beside - sum * 0.5).relu(), |sum, beside| (beside - sum * 0.5).max(0.0)),
    (|sum, beside| (sum * beside).tanh(), |sum, beside| (sum * beside).tanh()),
];

/// x·w and what follows, in double precision.
fn product([m, k, n]: [usize; 3], x: &[f32], w: &[f32], f: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    let sum = |at: usize| {
        let (row, column) = (at / n, at % n);
        let terms = (0..k).map(|i| f64::from(x[row * k + i]) * f64::from(w[i * n + column]));
        f(at, terms.sum())
    };
    (0..m * n).map(sum).collect()
}

/// Checks short products by a resident, given as it is or as its transpose, in several runs of one batch.
async fn check_short_products(sizes: &[[usize; 3]], is_transposed: bool) {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let mut all = Vec::new();
    for (at, &size @ [m, k, n]) in sizes.iter().enumerate() {
        let (f, of_float64) = EPILOGUES[at % EPILOGUES.len()];
        let (xs, ws, more) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n + 3, 3));
        let given: Vec<f32> = match is_transposed {
            true => (0..n * k).map(|at| ws[at % k * n + at / k]).collect(),
            false => ws.clone(),
        };
        let w = device
            .resident(&given, if is_transposed { [n, k] } else { [k, n] })
            .expect("a host with memory");
        let right = batch.bind(&w);
        let right = if is_transposed { right.transpose() } else { right };
        // The elements begin inside of their value.
        let beside = batch.upload(&more).slice([3..]).reshape([m, n]);
        let result = f(batch.upload_shaped(&xs, [m, k]).matmul(right), beside);
        let want = product(size, &xs, &ws, |at, sum| of_float64(sum, f64::from(more[at + 3])));
        all.push((format!("{size:?} {is_transposed}"), result, want, None));
    }
    // The right operand is read by rows, by columns, or by panels that are kept from the second run on.
    for run in 0..3 {
        batch.execute().await.expect("a host with memory");
        for (case, result, want, first) in &mut all {
            let got = batch.read(*result).await.expect("a host with memory");
            near(case, &got, want, 1e-5);
            assert!(*first.get_or_insert_with(|| got.clone()) == got, "{case}: run {run}");
        }
    }
}

#[tokio::test]
async fn short_products_are_the_same_in_each_run() {
    check_short_products(&[[1, 3, 5], [3, 6, 18], [9, 4, 10]], false).await;
}

#[tokio::test]
async fn short_products_of_a_transpose_are_the_same_in_each_run() {
    check_short_products(&[[1, 9, 19], [2, 3, 5], [7, 5, 9]], true).await;
}

#[tokio::test]
async fn a_resident_that_is_written_is_read_anew() {
    let (device, size @ [m, k, n]) = (Device::cpu(), [2, 8, 26]);
    let w = device.resident(&numbers(k * n, 1), [k, n]).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let xs = numbers(m * k, 2);
    let result = batch.upload_shaped(&xs, [m, k]).matmul(&w) + 1.0;
    for round in 0..2 {
        let ws = numbers(k * n, 10 + round);
        w.write(&ws).await.unwrap();
        for _ in 0..3 {
            batch.execute().await.unwrap();
            let got = batch.read(result).await.unwrap();
            near("written", &got, &product(size, &xs, &ws, |_, sum| sum + 1.0), 1e-5);
        }
    }
}

/// Threads share the first product, and then spin for the short ones behind it.
#[tokio::test]
async fn products_of_several_layers_follow_each_other() {
    let device = Device::cpu();
    let [rows, inputs, wide, out] = [5, 13, 18, 7];
    let weights = [numbers(inputs * wide, 1), numbers(wide * wide, 2), numbers(wide * out, 3)];
    let shapes = [[inputs, wide], [wide, wide], [wide, out]];
    let residents: Vec<_> =
        weights.iter().zip(shapes).map(|(w, shape)| device.resident(w, shape).unwrap()).collect();
    let xs = numbers(rows * inputs, 4);
    let batch = GpuCommandBatch::new(&device);
    let mut x = batch.upload_shaped(&xs, [rows, inputs]);
    let mut want: Vec<f64> = xs.iter().map(|&x| f64::from(x)).collect();
    for (at, (w, [k, n])) in residents.iter().zip(shapes).enumerate() {
        x = (x.matmul(w) * 0.25).relu();
        let sum = |row: usize, column: usize| -> f64 {
            (0..k).map(|i| want[row * k + i] * f64::from(weights[at][i * n + column])).sum()
        };
        want = (0..rows * n).map(|at| (sum(at / n, at % n) * 0.25).max(0.0)).collect();
    }
    for _ in 0..2 {
        batch.execute().await.unwrap();
        near("layers", &batch.read(x).await.unwrap(), &want, 1e-5);
    }
}
