//! Short products with residents on the cores: the results of all runs are the same bits, prepared or not, and
//! those of float64 within rounding.

use onetrip::{Device, GpuCommandBatch, Tensor};

/// Numbers without a pattern, in −1..1.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// An operation on a sum and an element beside it.
type Epilogue =
    (for<'b> fn(Tensor<'b, f32>, Tensor<'b, f32>) -> Tensor<'b, f32>, fn(f64, f64) -> f64);

const EPILOGUES: [Epilogue; 4] = [
    (|sum, _| sum, |sum, _| sum),
    (|sum, beside| sum + beside, |sum, beside| sum + beside),
    (|sum, beside| (beside - sum * 0.5).relu(), |sum, beside| (beside - sum * 0.5).max(0.0)),
    (|sum, beside| (sum * beside).clip(-0.5, 2.0), |sum, beside| (sum * beside).clamp(-0.5, 2.0)),
];

/// Sizes m, k and n around those of tiles, panels and what is kept as panels.
const SIZES: [[usize; 3]; 16] = [
    [1, 1, 1],
    [2, 5, 7],
    [0, 4, 3],
    [4, 8, 0],
    [1, 128, 384],
    [1, 96, 200],
    [3, 70, 300],
    [5, 17, 1000],
    [12, 64, 256],
    [13, 64, 256],
    [16, 256, 256],
    [17, 512, 192],
    [6, 512, 539],
    [1, 600, 48],
    [1, 513, 33],
    [2, 128, 130],
];

#[tokio::test]
async fn runs_before_and_after_panels_are_kept_give_the_same_bits() {
    let device = Device::cpu();
    for (at, size @ [m, k, n]) in SIZES.into_iter().enumerate() {
        for is_transposed in [false, true] {
            for (f, of_float64) in EPILOGUES {
                let seed = at as u32;
                let (xs, ws) = (numbers(m * k, seed), numbers(k * n, seed + 100));
                let more = numbers(m * n + 3, seed + 200);
                let shape = if is_transposed { [n, k] } else { [k, n] };
                let w = device.resident(&ws, shape).unwrap();
                let mut before: Option<Vec<u32>> = None;
                for (run, has_more) in [false, false, true, false].into_iter().enumerate() {
                    let batch = GpuCommandBatch::new(&device);
                    let x = batch.upload_shaped(&xs, [m, k]);
                    let mut right = batch.bind(&w);
                    if is_transposed {
                        right = right.transpose();
                    }
                    // The elements begin inside of their value.
                    let beside = batch.upload(&more).slice([3..]).reshape([m, n]);
                    let result = f(x.matmul(right), beside);
                    batch.outputs([result]);
                    if has_more {
                        // With a second output, no product is prepared.
                        batch.outputs([result * 2.0]);
                    }
                    batch.execute().await.unwrap();
                    let got = batch.read(result).await.unwrap();
                    let bits: Vec<u32> = got.iter().map(|number| number.to_bits()).collect();
                    let before = before.get_or_insert_with(|| bits.clone());
                    assert!(*before == bits, "{size:?} {is_transposed} run {run}: other bits");
                    if run == 1 {
                        check(size, &got, of_float64, (&xs, &ws, &more[3..]), is_transposed);
                    }
                }
            }
        }
    }
}

fn check(
    [_, k, n]: [usize; 3],
    got: &[f32],
    f: fn(f64, f64) -> f64,
    (x, w, beside): (&[f32], &[f32], &[f32]),
    is_transposed: bool,
) {
    for (at, &got) in got.iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let weight = |i: usize| if is_transposed { w[column * k + i] } else { w[i * n + column] };
        let sum: f64 = (0..k).map(|i| f64::from(x[row * k + i]) * f64::from(weight(i))).sum();
        let want = f(sum, f64::from(beside[at]));
        let error = (f64::from(got) - want).abs();
        assert!(error <= 1e-6 * (k as f64).max(4.0), "[{row}, {column}]: {got} for {want}");
    }
}

#[tokio::test]
async fn a_resident_that_is_written_is_read_anew() {
    let (device, [m, k, n]) = (Device::cpu(), [1, 128, 384]);
    let w = device.resident(&numbers(k * n, 1), [k, n]).unwrap();
    for round in 0..3 {
        let ws = numbers(k * n, 10 + round);
        w.write(&ws).await.unwrap();
        for _ in 0..3 {
            let batch = GpuCommandBatch::new(&device);
            let xs = numbers(m * k, 2);
            let result = batch.upload_shaped(&xs, [m, k]).matmul(&w) + 1.0;
            batch.execute().await.unwrap();
            let got = batch.read(result).await.unwrap();
            check([m, k, n], &got, |sum, _| sum + 1.0, (&xs, &ws, &vec![0.0; n]), false);
        }
    }
}

/// The steps of a chain differ in where their weights, inputs and biases begin, and share what the first one prepares.
#[tokio::test]
async fn like_products_read_their_own_parts_of_a_resident() {
    const STEPS: usize = 7;
    let device = Device::cpu();
    for [rows, w] in [[1, 16], [1, 128], [3, 33], [8, 128], [2, 144], [13, 130]] {
        for is_transposed in [false, true] {
            let size = (w as f32).sqrt().recip();
            let scaled = |len, seed| numbers(len, seed).into_iter().map(|it| it * size);
            let (vs, ws): (Vec<f32>, Vec<f32>) =
                (scaled(w * w, 1).collect(), scaled(3 * w * w, 2).collect());
            let biases = numbers(STEPS * w, 3);
            let v = device.resident(&vs, [w, w]).unwrap();
            let weights = device.resident(&ws, [3, w, w]).unwrap();
            let batch = GpuCommandBatch::new(&device);
            let x = batch.input::<f32>("x", [STEPS, rows, w]);
            let bias = batch.upload_shaped(&biases, [STEPS, w]);
            let mut h = batch.input::<f32>("h", [rows, w]);
            for t in 0..STEPS {
                let part = batch.bind(&weights).slice([t % 3..t % 3 + 1, 0..w, 0..w]).squeeze(0);
                let part = if is_transposed { part.transpose() } else { part };
                let x = x.slice([t..t + 1, 0..rows, 0..w]).squeeze(0);
                let bias = bias.slice([t..t + 1, 0..w]);
                h = (x.matmul(batch.bind(&v)) + h.matmul(part) + bias).tanh();
            }
            h.named("y");
            let program = batch.compile().await.unwrap();
            for run in 0..4 {
                let (xs, hs) = (numbers(STEPS * rows * w, 10 + run), numbers(rows * w, 20 + run));
                let outputs = program.run([("x", &xs), ("h", &hs)]).await.unwrap();
                let got: Vec<f32> = outputs.read("y").await.unwrap();
                let weight = |s: usize, i: usize, column: usize| {
                    let [i, column] = if is_transposed { [column, i] } else { [i, column] };
                    f64::from(ws[(s * w + i) * w + column])
                };
                let mut want: Vec<f64> = hs.iter().copied().map(f64::from).collect();
                for t in 0..STEPS {
                    let element = |at: usize| {
                        let (row, column) = (at / w, at % w);
                        let x = &xs[(t * rows + row) * w..][..w];
                        let term = |i: usize| {
                            f64::from(x[i]) * f64::from(vs[i * w + column])
                                + want[row * w + i] * weight(t % 3, i, column)
                        };
                        let sum: f64 = (0..w).map(term).sum();
                        (sum + f64::from(biases[t * w + column])).tanh()
                    };
                    want = (0..rows * w).map(element).collect();
                }
                for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                    let error = (f64::from(*got) - want).abs();
                    assert!(error < 1e-5, "{rows} rows of {w}, run {run}, {at}: {got} for {want}");
                }
            }
        }
    }
}
