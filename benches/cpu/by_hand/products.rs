//! Products and a convolution, beside the `gemm` crate.

use onetrip::{Conv2d, Numeric};

use super::measure::{Bench, Work};
use super::reference::check;
use super::{Done, direct};
use crate::random::Random;

/// The work of a product besides the product.
#[derive(Clone, Copy, PartialEq)]
pub enum Extra {
    Nothing,
    /// The right operand is a transposed view.
    Transposed,
    BiasAndRelu,
}

/// `batch` products of `m × k` and `k × n`; beside them, the `gemm` crate.
pub async fn product(
    bench: &Bench,
    name: &str,
    batch: usize,
    [m, n, k]: [usize; 3],
    extra: Extra,
) -> Done {
    if !bench.wants(name) {
        return Ok(());
    }
    let mut random = Random::new(3);
    let (x, w, bias) =
        (random.floats(batch * m * k), random.floats(batch * k * n), random.floats(n));
    let on_x = bench.device.resident(&x, [batch, m, k])?;
    let transposed = extra == Extra::Transposed;
    let w_shape = if transposed { [batch, n, k] } else { [batch, k, n] };
    let (on_w, on_bias) = (bench.device.resident(&w, w_shape)?, bench.device.resident(&bias, n)?);
    let mut out = vec![0.0; batch * m * n];
    let (w_row, w_column) = if transposed { (1, k) } else { (n, 1) };
    let beside = || direct::products([m, n, k], &x, &w, [w_row, w_column], &mut out);
    let work = Work::Flops(2.0 * (batch * m * n) as f64 * k as f64);
    let y = bench
        .pair(name, &work, "gemm", beside, |b| {
            let (x, w) = (b.bind(&on_x), b.bind(&on_w));
            let w = if transposed { w.transpose() } else { w };
            let y = x.matmul(w);
            if extra == Extra::BiasAndRelu { (y + b.bind(&on_bias)).relu() } else { y }
        })
        .await?;
    let exact = |i: usize| {
        let (matrix, row, column) = (i / (m * n), i / n, i % n);
        let sum: f64 = (0..k)
            .map(|at| {
                let w = w[matrix * k * n + at * w_row + column * w_column];
                f64::from(x[row * k + at]) * f64::from(w)
            })
            .sum();
        if extra == Extra::BiasAndRelu { (sum + f64::from(bias[column])).max(0.0) } else { sum }
    };
    check(name, Some(y), 1e-5 * (k as f64).sqrt(), exact)
}

/// 64 products of 64² matrices in one run, each of which has the one before as its left operand, beside as many calls
/// of `gemm`: what a step costs without what a run does.
pub async fn products_in_turn(bench: &Bench, name: &str) -> Done {
    const SIDE: usize = 64;
    const PRODUCTS: usize = 64;
    if !bench.wants(name) {
        return Ok(());
    }
    let mut random = Random::new(7);
    // Elements of variance 1 / SIDE, so that the products are neither large nor small.
    let scale = (3.0 / SIDE as f32).sqrt();
    let mut matrix = || random.floats(SIDE * SIDE).iter().map(|x| x * scale).collect::<Vec<f32>>();
    let (x, w) = (matrix(), matrix());
    let (on_x, on_w) =
        (bench.device.resident(&x, [SIDE, SIDE])?, bench.device.resident(&w, [SIDE, SIDE])?);
    let (mut out, mut last) = (x.clone(), x.clone());
    let beside = || {
        last.copy_from_slice(&x);
        for _ in 0..PRODUCTS {
            direct::products([SIDE; 3], &last, &w, [SIDE, 1], &mut out);
            std::mem::swap(&mut out, &mut last);
        }
    };
    let work = Work::Flops(2.0 * (PRODUCTS * SIDE * SIDE) as f64 * SIDE as f64);
    let y = bench
        .pair(name, &work, "gemm", beside, |b| {
            let (x, w) = (b.bind(&on_x), b.bind(&on_w));
            (0..PRODUCTS).fold(x, |y, _| y.matmul(w))
        })
        .await?;
    let mut exact: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    for _ in 0..PRODUCTS {
        let element = |i: usize| {
            let row = &exact[i / SIDE * SIDE..][..SIDE];
            row.iter()
                .zip(w.iter().skip(i % SIDE).step_by(SIDE))
                .map(|(x, &w)| x * f64::from(w))
                .sum()
        };
        exact = (0..SIDE * SIDE).map(element).collect();
    }
    check(name, Some(y), 1e-4, |i| exact[i])
}

/// A product of 1024² matrices of another type, read as `f32`; beside it, `gemm` of `f32`.
pub async fn typed_product<T: Numeric>(bench: &Bench, name: &str, number: fn(f32) -> T) -> Done {
    const SIDE: usize = 1024;
    if !bench.wants(name) {
        return Ok(());
    }
    let x = Random::new(9).floats(SIDE * SIDE);
    let numbers: Vec<T> = x.iter().map(|&x| number(x)).collect();
    let on_x = bench.device.resident(&numbers, [SIDE, SIDE])?;
    let mut out = vec![0.0; SIDE * SIDE];
    let beside = || direct::products([SIDE; 3], &x, &x, [SIDE, 1], &mut out);
    let work = Work::Flops(2.0 * (SIDE * SIDE) as f64 * SIDE as f64);
    let y = bench
        .pair(name, &work, "gemm of f32", beside, |b| {
            let x = b.bind(&on_x);
            x.matmul(x).cast::<f32>()
        })
        .await?;
    let as_stored: Vec<f32> = bench.device.eval(|b| b.bind(&on_x).cast::<f32>()).await?;
    let exact = |i: usize| {
        let terms = (0..SIDE).map(|k| {
            f64::from(as_stored[i / SIDE * SIDE + k]) * f64::from(as_stored[k * SIDE + i % SIDE])
        });
        terms.sum()
    };
    check(name, Some(y), 2e-2, exact)
}

/// A convolution of 8 images with 64 filters of 3 × 3; beside it, windows written out and `gemm`, an image a thread.
pub async fn convolution(bench: &Bench, name: &str) -> Done {
    const CHANNELS: usize = 64;
    const SIDE: usize = 56;
    const LEN: usize = 8 * CHANNELS * SIDE * SIDE;
    if !bench.wants(name) {
        return Ok(());
    }
    let mut random = Random::new(4);
    let (x, w) = (random.floats(LEN), random.floats(CHANNELS * CHANNELS * 9));
    let on_x = bench.device.resident(&x, [8, CHANNELS, SIDE, SIDE])?;
    let on_w = bench.device.resident(&w, [CHANNELS, CHANNELS, 3, 3])?;
    let conv = Conv2d { padding: [(1, 1); 2], ..Conv2d::default() };
    let mut out = vec![0.0; LEN];
    let beside = || direct::convolution([CHANNELS, SIDE], &x, &w, &mut out);
    let work = Work::Flops(2.0 * (LEN * CHANNELS * 9) as f64);
    let y = bench
        .pair(name, &work, "windows and gemm", beside, |b| {
            b.bind(&on_x).conv2d(b.bind(&on_w), None, conv)
        })
        .await?;
    let exact = |i: usize| {
        let [image, f, r, c] =
            [i / (CHANNELS * SIDE * SIDE), i / (SIDE * SIDE) % CHANNELS, i / SIDE % SIDE, i % SIDE];
        let term = |at: usize| {
            let [channel, i, j] = [at / 9, at / 3 % 3, at % 3];
            let [row, column] = [(r + i).wrapping_sub(1), (c + j).wrapping_sub(1)];
            if row >= SIDE || column >= SIDE {
                return 0.0;
            }
            let x = x[((image * CHANNELS + channel) * SIDE + row) * SIDE + column];
            f64::from(x) * f64::from(w[f * CHANNELS * 9 + at])
        };
        (0..CHANNELS * 9).map(term).sum()
    };
    check(name, Some(y), 1e-4, exact)?;
    check("windows and gemm", Some(out), 1e-4, exact)
}
