//! Each kernel form on the CPU, beside the same work without an engine.
//!
//! `kernel <case> <median_ms> <rate> <first_call_ms>`, as `benches/kernels` prints it: data resident and the
//! result left on the device unless the case says otherwise. Below it, `beside <what> <median_ms> <rate>
//! <ratio>`: the `gemm` crate called directly, or a loop written by hand that moves the same bytes once, on
//! rayon's threads; ratio is our time / theirs. Passes of both alternate. Every result is compared with
//! float64 at sampled positions.

mod direct;
mod measure;
mod products;
#[path = "../../kernels/reference.rs"]
#[expect(dead_code, reason = "shared with a bench that measures f16 too")]
mod reference;
mod rows;

use std::error::Error;

use measure::{Bench, Work};
use onetrip::{GpuCommandBatch, Tensor, f16};
use products::{Extra, convolution, product, products_in_turn, typed_product};
use reference::check;
use rows::{reductions, rows};

use crate::chain;
use crate::random::Random;

type Done = Result<(), Box<dyn Error>>;

/// Measures the cases whose names contain `filter`.
#[tokio::main(flavor = "current_thread")]
pub async fn run(filter: &str) -> Done {
    let bench = Bench::new(filter.to_owned());
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
    for rows in [1, 64] {
        let name = format!("linear_relu_{rows}x4096x4096");
        product(&bench, &name, 1, [rows, 4096, 4096], Extra::BiasAndRelu).await?;
    }
    convolution(&bench, "conv2d_3x3_8x64x56x56").await?;
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
