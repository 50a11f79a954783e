//! Each kernel form on the CPU, beside the same work without an engine.
//!
//! ```text
//! cargo bench --bench cpu [-- part of a case's name]
//! ```
//!
//! `kernel <case> <median_ms> <rate> <first_call_ms>`, as `benches/kernels` prints it: data resident and the
//! result left on the device unless the case says otherwise. Below it, `beside <what> <median_ms> <rate>
//! <ratio>`: the `gemm` crate called directly, or a loop written by hand that moves the same bytes once, on
//! rayon's threads; ratio is our time / theirs. Passes of both alternate. Every result is compared with
//! float64 at sampled positions.

#[path = "../common/chain.rs"]
mod chain;
mod convolution;
mod direct;
mod measure;
#[path = "../kernels/reference.rs"]
#[expect(dead_code, reason = "shared with a bench that measures f16 too")]
mod reference;
#[path = "../../examples/common/timing.rs"]
#[expect(dead_code, reason = "shared with benches that measure one thing at a time")]
mod timing;

use std::error::Error;

use measure::{Bench, Work};
use onetrip::{Axes, GpuCommandBatch, Numeric, Tensor, f16};
use reference::{Random, check};

type Done = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let bench = Bench::new(filter);
    println!("# {}", bench.device.info());
    for power in [3, 4, 5, 6, 8] {
        chain(&bench, &format!("chain8_1e{power}"), 10usize.pow(power)).await?;
    }
    for (name, len) in [("1e4", 10_000), ("1e6", 1_000_000), ("1e7", 10_000_000)] {
        chain_from_host(&bench, &format!("chain8_{name}_host_to_host"), len).await?;
    }
    functions(&bench).await?;
    for n in [64, 128, 256, 512, 1024, 2048] {
        product(&bench, &format!("matmul_{n}"), 1, [n, n, n], Extra::Nothing).await?;
    }
    product(&bench, "matmul_64x64x64x64", 64, [64; 3], Extra::Nothing).await?;
    products_in_turn(&bench, "matmul_64_in_turn").await?;
    typed_product::<f16>(&bench, "matmul_1024_f16", f16::from_f32).await?;
    typed_product::<i32>(&bench, "matmul_1024_i32", |x| (x * 64.0) as i32).await?;
    product(&bench, "matmul_1024_transposed", 1, [1024; 3], Extra::Transposed).await?;
    product(&bench, "matmul_64x128x128x128", 64, [128; 3], Extra::Nothing).await?;
    for rows in [1, 8, 64, 1024] {
        let name = format!("linear_relu_{rows}x1024x1024");
        product(&bench, &name, 1, [rows, 1024, 1024], Extra::BiasAndRelu).await?;
    }
    for rows in [1, 16, 64, 256] {
        let name = format!("linear_out_in_{rows}x1024x1024");
        product(&bench, &name, 1, [rows, 1024, 1024], Extra::Transposed).await?;
    }
    let name = "linear_gelu_4096x1536x384";
    product(&bench, name, 1, [4096, 1536, 384], Extra::BiasAndGelu).await?;
    product(&bench, "matmul_4096x1536x384", 1, [4096, 1536, 384], Extra::Nothing).await?;
    for rows in [1, 64] {
        let name = format!("linear_relu_{rows}x4096x4096");
        product(&bench, &name, 1, [rows, 4096, 4096], Extra::BiasAndRelu).await?;
    }
    convolution::all(&bench).await?;
    rows(&bench).await?;
    reductions(&bench).await
}

/// Operand `k` of the chains at element `i`: whole eighths in −1..1.
fn operand(k: usize, i: usize) -> f32 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (k as u64) << 33);
    (mixed >> 60) as f32 / 8.0 - 1.0
}

/// The chain in double precision.
fn exact_chain(i: usize) -> f64 {
    let [a, b, c, d] = [0, 1, 2, 3].map(|k| f64::from(operand(k, i)));
    (((a * b + c).max(0.0) * 0.5 - d).powi(2) - 0.125).max(a)
}

/// Eight operations on four operands.
async fn chain(bench: &Bench, name: &str, len: usize) -> Done {
    if !bench.wants(name) {
        return Ok(());
    }
    let data = |k: usize| (0..len).map(|i| operand(k, i)).collect::<Vec<f32>>();
    let data = [0, 1, 2, 3].map(data);
    let [a, b, c, d] = [0, 1, 2, 3].map(|k| bench.device.resident(&data[k], len));
    let (a, b, c, d) = (a?, b?, c?, d?);
    let operands = [&a, &b, &c, &d];
    let mut out = vec![0.0; len];
    let beside = || direct::chain([0, 1, 2, 3].map(|k| &data[k][..]), &mut out);
    let work = Work::Bytes(20.0 * len as f64);
    let y = bench
        .pair(name, &work, "a loop by hand", beside, |batch| {
            chain::record(operands.map(|x| batch.bind(x)))
        })
        .await?;
    check(name, Some(y), 1e-5, exact_chain)?;
    check("the loop by hand", Some(out), 1e-5, exact_chain)
}

/// The chain in a batch that is recorded anew each time, from a slice to a `Vec`; beside it, the loop into
/// a new `Vec`.
async fn chain_from_host(bench: &Bench, name: &str, len: usize) -> Done {
    if !bench.wants(name) {
        return Ok(());
    }
    let data = [0, 1, 2, 3].map(|k| (0..len).map(|i| operand(k, i)).collect::<Vec<f32>>());
    let pass = async || {
        let batch = GpuCommandBatch::new(&bench.device);
        let y = chain::record([0, 1, 2, 3].map(|k| batch.upload(&data[k])));
        batch.execute().await?;
        batch.read(y).await
    };
    let beside = || {
        let mut out = vec![0.0; len];
        direct::chain([0, 1, 2, 3].map(|k| &data[k][..]), &mut out);
    };
    let work = Work::Bytes(20.0 * len as f64);
    let y = bench.passes(name, &work, pass, "a loop by hand", beside).await?;
    check(name, Some(y), 1e-5, exact_chain)
}

/// Functions of one argument, beside a loop that scales.
async fn functions(bench: &Bench) -> Done {
    const LEN: usize = 10_000_000;
    type Record = fn(Tensor<'_, f32>) -> Tensor<'_, f32>;
    type Exact = fn(f64) -> f64;
    let cases: [(&str, Record, Exact); 4] = [
        ("exp_1e7", |x| x.exp(), f64::exp),
        ("tanh_1e7", |x| x.tanh(), f64::tanh),
        ("erf_1e7", |x| x.erf(), libm::erf),
        ("gelu_1e7", |x| x.gelu(), |x| 0.5 * x * (1.0 + libm::erf(x * 0.5f64.sqrt()))),
    ];
    if !cases.iter().any(|(name, ..)| bench.wants(name)) {
        return Ok(());
    }
    let x: Vec<f32> = Random::new(8).floats(LEN).iter().map(|x| x * 4.0).collect();
    let on_x = bench.device.resident(&x, LEN)?;
    let mut out = vec![0.0; LEN];
    for (name, op, exact) in cases {
        if bench.wants(name) {
            let beside = || direct::scale(&x, &mut out);
            let work = Work::Bytes(8.0 * LEN as f64);
            let y =
                bench.pair(name, &work, "scaling by hand", beside, |b| op(b.bind(&on_x))).await?;
            check(name, Some(y), 1e-4, |i| exact(f64::from(x[i])))?;
        }
    }
    Ok(())
}

/// The work of a product besides the product.
#[derive(Clone, Copy, PartialEq)]
enum Extra {
    Nothing,
    /// The right operand is a transposed view.
    Transposed,
    BiasAndRelu,
    BiasAndGelu,
}

/// `batch` products of `m × k` and `k × n`; beside them, the `gemm` crate.
async fn product(
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
            match extra {
                Extra::BiasAndRelu => (y + b.bind(&on_bias)).relu(),
                Extra::BiasAndGelu => (y + b.bind(&on_bias)).gelu(),
                Extra::Nothing | Extra::Transposed => y,
            }
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
        let x = sum + f64::from(bias[column]);
        match extra {
            Extra::BiasAndRelu => x.max(0.0),
            Extra::BiasAndGelu => 0.5 * x * (1.0 + libm::erf(x * 0.5f64.sqrt())),
            Extra::Nothing | Extra::Transposed => sum,
        }
    };
    check(name, Some(y), 1e-5 * (k as f64).sqrt(), exact)
}

/// 64 products of 64² matrices in one run, each of which has the one before as its left operand, beside as many calls
/// of `gemm`: what a step costs without what a run does.
async fn products_in_turn(bench: &Bench, name: &str) -> Done {
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
async fn typed_product<T: Numeric>(bench: &Bench, name: &str, number: fn(f32) -> T) -> Done {
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

/// Row operations on 4096², beside the same by hand.
async fn rows(bench: &Bench) -> Done {
    const SIDE: usize = 4096;
    type Record = fn(Tensor<'_, f32>) -> Tensor<'_, f32>;
    type Exact = fn(f64, &[f32]) -> f64;
    type Beside = (&'static str, fn(&[f32], usize, &mut [f32]));
    fn exps(row: &[f32]) -> f64 {
        row.iter().map(|&x| f64::from(x).exp()).sum()
    }
    fn normal(x: f64, row: &[f32]) -> f64 {
        let mean = |f: &dyn Fn(f64) -> f64| {
            row.iter().map(|&x| f(f64::from(x))).sum::<f64>() / row.len() as f64
        };
        let average = mean(&|x| x);
        (x - average) / (mean(&|x| (x - average).powi(2)) + 1e-5).sqrt()
    }
    let softmax: Beside = ("softmax by hand", direct::softmax);
    let log_softmax: Beside = ("log-softmax by hand", direct::log_softmax);
    let norm: Beside = ("layer norm by hand", direct::layer_norm);
    let cases: [(&str, Record, Exact, Beside); 3] = [
        ("softmax_4096", |x| x.softmax(-1), |x, row| x.exp() / exps(row), softmax),
        ("log_softmax_4096", |x| x.log_softmax(-1), |x, row| x - exps(row).ln(), log_softmax),
        ("layer_norm_4096", |x| x.layer_norm(-1, 1e-5), normal, norm),
    ];
    if !cases.iter().any(|(name, ..)| bench.wants(name)) {
        return Ok(());
    }
    let x = Random::new(5).floats(SIDE * SIDE);
    let on_x = bench.device.resident(&x, [SIDE, SIDE])?;
    let mut out = vec![0.0; SIDE * SIDE];
    for (name, op, exact, (other, by_hand)) in cases {
        if bench.wants(name) {
            let beside = || by_hand(&x, SIDE, &mut out);
            let work = Work::Bytes(8.0 * (SIDE * SIDE) as f64);
            let y = bench.pair(name, &work, other, beside, |b| op(b.bind(&on_x))).await?;
            check(name, Some(y), 1e-5, |i| exact(x[i].into(), &x[i / SIDE * SIDE..][..SIDE]))?;
        }
    }
    Ok(())
}

/// The position of the greatest element, in units of 1024.
fn position_of(x: Tensor<'_, f32>, axes: impl Into<Axes>) -> Tensor<'_, f32> {
    x.argmax(axes).cast::<f32>().scale(2f32.powi(-10))
}

/// Reductions of 64e6 elements to one, and along each axis of 8000²; beside them, a sum by hand.
async fn reductions(bench: &Bench) -> Done {
    const SIDE: usize = 8000;
    const LEN: usize = SIDE * SIDE;
    type Record = fn(Tensor<'_, f32>) -> Tensor<'_, f32>;
    type Exact = fn(&mut dyn Iterator<Item = f64>) -> f64;
    let sum: Exact = |x| x.sum();
    let greatest: Exact = |x| x.fold(f64::NEG_INFINITY, f64::max);
    let position: Exact = |x| {
        let mut best = (0, f64::NEG_INFINITY);
        for (at, x) in x.enumerate() {
            if x > best.1 {
                best = (at, x);
            }
        }
        best.0 as f64 / 1024.0
    };
    let log_sum: Exact = |x| x.map(f64::exp).sum::<f64>().ln();
    let cases: [(&str, Record, usize, Exact); 8] = [
        ("sum_64e6", |x| x.sum(..), 0, sum),
        ("max_64e6", |x| x.amax(..), 0, greatest),
        ("argmax_64e6", |x| position_of(x, ..), 0, position),
        ("logsumexp_64e6", |x| x.logsumexp(..), 0, log_sum),
        ("sum_rows_8000", |x| x.sum(1), 1, sum),
        ("sum_columns_8000", |x| x.sum(0), SIDE, sum),
        ("argmax_columns_8000", |x| position_of(x, 0), SIDE, position),
        ("logsumexp_columns_8000", |x| x.logsumexp(0), SIDE, log_sum),
    ];
    if !cases.iter().any(|(name, ..)| bench.wants(name)) {
        return Ok(());
    }
    let x = Random::new(6).floats(LEN);
    let on_x = bench.device.resident(&x, [SIDE, SIDE])?;
    for (name, op, stride, exact) in cases {
        if bench.wants(name) {
            let beside = || {
                std::hint::black_box(direct::sum(&x));
            };
            let work = Work::Bytes(4.0 * LEN as f64);
            let y = bench.pair(name, &work, "a sum by hand", beside, |b| op(b.bind(&on_x))).await?;
            let whole =
                if stride == 0 { exact(&mut x.iter().copied().map(f64::from)) } else { 0.0 };
            check(name, Some(y), 8e-3, |i| match stride {
                0 => whole,
                1 => exact(&mut x[i * SIDE..][..SIDE].iter().map(|&x| f64::from(x))),
                _ => exact(&mut x[i..].iter().step_by(SIDE).map(|&x| f64::from(x))),
            })?;
        }
    }
    Ok(())
}
