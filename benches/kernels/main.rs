//! The rate of each kernel form: one line a case.
//!
//! ```text
//! cargo bench --bench kernels [-- parts of the cases' names]
//! ONETRIP_CACHE=folder cargo bench --bench kernels -- --first-only
//! ```
//!
//! `kernel <case> <median_ms> <rate> <first_call_ms>`: data resident and the result left on the device
//! unless the case says otherwise; the median of whole calls, from `execute` to the end of waiting; the
//! rate from flops (products) or bytes that must move; the first call with planning and compiling.
//! A `latency` line says what a call on next to no data takes. Every result is compared with a float64
//! reference at sampled positions. Without a GPU the CPU is measured.
//!
//! With `--first-only`, only the first calls are made: run it in two processes, with an empty folder for
//! compiled kernels and again with what the first left there, for cold starts without and with the cache. Then each
//! line ends with what the first call did.

mod attention;
#[path = "../common/chain.rs"]
mod chain;
mod convolution;
mod indexing;
mod memory;
mod order;
#[path = "../common/random.rs"]
#[expect(dead_code, reason = "shared with a bench that names its numbers")]
mod random;
mod reference;
#[path = "../../examples/common/timing.rs"]
mod timing;
mod transfer;

use std::error::Error;
use std::time::{Duration, Instant};

use onetrip::{Device, Element, GpuCommandBatch, Precision, Resident, Result, Tensor, f16};
use reference::{Random, check, relative_error};
use timing::{Budget, median, milliseconds};

const BUDGET: Budget = Budget { least: 5, most: 2000, time: Duration::from_millis(800) };
const CHAIN: usize = 64_000_000;
const SIDE: usize = 4096;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let filters = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let first_only = std::env::args().any(|arg| arg == "--first-only");
    let start = Instant::now();
    let device = match Device::gpu().await {
        Ok(gpu) if !gpu.info().software => gpu,
        _ => Device::cpu(),
    };
    println!("# {}, opened in {} ms", device.info(), milliseconds(start.elapsed()));
    let bench = Bench { device, filters, first_only };
    bench.latency().await?;
    bench.chain().await?;
    for n in [1024, 2048, 4096, 8192] {
        bench.matmul::<f32>(n, 1e-5).await?;
    }
    for n in [4095, 4097] {
        bench.matmul::<f32>(n, 1e-5).await?;
    }
    for precision in [Precision::Split, Precision::Half] {
        for n in [1024, 2048, 4096, 8192] {
            bench.inexact(n, precision).await?;
        }
    }
    for n in [1024, 2048, 4096, 8192] {
        bench.matmul::<f16>(n, 2e-3).await?;
    }
    bench.transposed().await?;
    for rows in [1, 64, 1024, 4096] {
        bench.layer(rows).await?;
    }
    bench.rows().await?;
    bench.attention().await?;
    bench.sum().await?;
    bench.memory().await?;
    bench.indexing().await?;
    bench.convolutions().await?;
    bench.order().await?;
    bench.network().await?;
    bench.transfers().await?;
    bench.layers_with_uploads().await
}

struct Bench {
    device: Device,
    /// Only the cases whose names contain one of them; all, if there are none.
    filters: Vec<String>,
    /// True if nothing is measured but first calls.
    first_only: bool,
}

/// The least work of a case.
enum Work {
    Flops(f64),
    Bytes(f64),
}

impl Bench {
    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }

    /// Measures a graph over residents, prints its line and returns the result.
    async fn case<T: Element>(
        &self,
        name: &str,
        work: Work,
        record: impl Fn(&GpuCommandBatch) -> Tensor<'_, T>,
    ) -> Result<Option<Vec<T>>, Box<dyn Error>> {
        if !self.wants(name) {
            return Ok(None);
        }
        let start = Instant::now();
        let batch = GpuCommandBatch::new(&self.device);
        let result = record(&batch);
        let kept = batch.keep(result);
        batch.execute().await?;
        let first = start.elapsed();
        if self.first_only {
            println!("kernel {name} - - {} # {}", milliseconds(first), batch.stats());
            return Ok(None);
        }
        let time = median(BUDGET, async || batch.execute().await).await?;
        let rate = match work {
            Work::Flops(flops) => format!("{:.2} TFLOP/s", flops / time.as_secs_f64() / 1e12),
            Work::Bytes(bytes) => format!("{:.0} GB/s", bytes / time.as_secs_f64() / 1e9),
        };
        println!("kernel {name} {} {rate} {}", milliseconds(time), milliseconds(first));
        Ok(Some(kept.read().await?))
    }

    fn resident<T: Element>(&self, data: &[T], shape: &[usize]) -> Result<Resident<T>> {
        self.device.resident(data, shape)
    }

    async fn latency(&self) -> Result<(), Box<dyn Error>> {
        let x = self.resident(&Random::new(1).floats(1024), &[1024])?;
        self.case("latency", Work::Bytes(8192.0), |b| b.bind(&x).relu()).await?;
        Ok(())
    }

    /// Eight operations on four operands.
    async fn chain(&self) -> Result<(), Box<dyn Error>> {
        let mut random = Random::new(2);
        let data: [Vec<f32>; 4] = std::array::from_fn(|_| random.floats(CHAIN));
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| self.resident(&data[k], &[CHAIN]));
        let (a, b, c, d) = (a?, b?, c?, d?);
        let y = self.case("chain8_64e6", Work::Bytes(20.0 * CHAIN as f64), |batch| {
            chain::record([&a, &b, &c, &d].map(|x| batch.bind(x)))
        });
        check("chain", y.await?, 1e-5, |i| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|k| f64::from(data[k][i]));
            (((a * b + c).max(0.0) * 0.5 - d).powi(2) - 0.125).max(a)
        })
    }

    async fn matmul<T: reference::Number>(
        &self,
        n: usize,
        tolerance: f64,
    ) -> Result<(), Box<dyn Error>> {
        let mut random = Random::new(3);
        let (x, w): (Vec<T>, Vec<T>) = (random.numbers(n * n), random.numbers(n * n));
        let (on_x, on_w) = (self.resident(&x, &[n, n])?, self.resident(&w, &[n, n])?);
        let name = format!("matmul_{}_{n}", T::DTYPE);
        let flops = Work::Flops(2.0 * (n as f64).powi(3));
        let y = self.case(&name, flops, |b| b.bind(&on_x).matmul(b.bind(&on_w)));
        let y = y.await?.map(|y| y.into_iter().map(|y| y.float() as f32).collect());
        // Sums of n products of a few units: their scale is √n.
        check(&name, y, tolerance * (n as f64).sqrt(), |i| {
            let (row, column) = (i / n, i % n);
            (0..n).map(|k| x[row * n + k].float() * w[k * n + column].float()).sum()
        })
    }

    /// f32 products on matrix units, with the error that they have in norm beside that of exact ones.
    async fn inexact(&self, n: usize, precision: Precision) -> Result<(), Box<dyn Error>> {
        let name = format!("matmul_{precision:?}_{n}").to_lowercase();
        if !self.wants(&name) {
            return Ok(());
        }
        let mut random = Random::new(3);
        let (x, w): (Vec<f32>, Vec<f32>) = (random.floats(n * n), random.floats(n * n));
        let (on_x, on_w) = (self.resident(&x, &[n, n])?, self.resident(&w, &[n, n])?);
        let flops = Work::Flops(2.0 * (n as f64).powi(3));
        let y = self.case(&name, flops, |b| b.bind(&on_x).matmul_with(b.bind(&on_w), precision));
        let Some(y) = y.await? else { return Ok(()) };
        let batch = GpuCommandBatch::new(&self.device);
        let product = batch.bind(&on_x).matmul(batch.bind(&on_w));
        batch.execute().await?;
        let exact: Vec<f32> = batch.read(product).await?;
        let [of_it, of_exact] = [&y, &exact].map(|y| {
            relative_error(y, |i| {
                let (row, column) = (i / n, i % n);
                (0..n).map(|k| f64::from(x[row * n + k]) * f64::from(w[k * n + column])).sum()
            })
        });
        let limit = if precision == Precision::Split { 4.0 * of_exact } else { 1e-3 };
        println!("# {name}: error {of_it:.1e} in norm, exact {of_exact:.1e}");
        if of_it <= limit { Ok(()) } else { Err(format!("{name}: error past {limit:.1e}").into()) }
    }

    /// x·Wᵀ with W 4096², as layers store it.
    async fn transposed(&self) -> Result<(), Box<dyn Error>> {
        for rows in [1, 4096] {
            let mut random = Random::new(9);
            let (x, w) = (random.floats(rows * SIDE), random.floats(SIDE * SIDE));
            let (on_x, on_w) =
                (self.resident(&x, &[rows, SIDE])?, self.resident(&w, &[SIDE, SIDE])?);
            let flops = Work::Flops(2.0 * (rows * SIDE * SIDE) as f64);
            let name = format!("matmul_transposed_{rows}x4096x4096");
            let y = self.case(&name, flops, |b| b.bind(&on_x).matmul(b.bind(&on_w).transpose()));
            check("transposed", y.await?, 1e-5 * (SIDE as f64).sqrt(), |i| {
                let (row, column) = (i / SIDE, i % SIDE);
                let term =
                    |k: usize| f64::from(x[row * SIDE + k]) * f64::from(w[column * SIDE + k]);
                (0..SIDE).map(term).sum()
            })?;
        }
        Ok(())
    }

    /// relu(x·W + b) with W 4096².
    async fn layer(&self, rows: usize) -> Result<(), Box<dyn Error>> {
        let mut random = Random::new(4);
        let (x, w) = (random.floats(rows * SIDE), random.floats(SIDE * SIDE));
        let bias = random.floats(SIDE);
        let on_x = self.resident(&x, &[rows, SIDE])?;
        let on_w = self.resident(&w, &[SIDE, SIDE])?;
        let on_b = self.resident(&bias, &[SIDE])?;
        let flops = 2.0 * (rows * SIDE * SIDE) as f64;
        let name = format!("linear_relu_{rows}x4096x4096");
        let y = self.case(&name, Work::Flops(flops), |b| {
            b.bind(&on_x).linear(b.bind(&on_w), b.bind(&on_b)).relu()
        });
        check("linear", y.await?, 1e-5 * (SIDE as f64).sqrt(), |i| {
            let (row, column) = (i / SIDE, i % SIDE);
            let sum = |k: usize| f64::from(x[row * SIDE + k]) * f64::from(w[k * SIDE + column]);
            ((0..SIDE).map(sum).sum::<f64>() + f64::from(bias[column])).max(0.0)
        })
    }

    async fn rows(&self) -> Result<(), Box<dyn Error>> {
        let x = Random::new(5).floats(SIDE * SIDE);
        let on_x = self.resident(&x, &[SIDE, SIDE])?;
        let bytes = || Work::Bytes(8.0 * (SIDE * SIDE) as f64);
        let row = |i: usize| x[i / SIDE * SIDE..][..SIDE].iter().map(|&x| f64::from(x));
        let y = self.case("softmax_4096", bytes(), |b| b.bind(&on_x).softmax(-1)).await?;
        check("softmax", y, 1e-6, |i| f64::from(x[i]).exp() / row(i).map(f64::exp).sum::<f64>())?;
        let y =
            self.case("layer_norm_4096", bytes(), |b| b.bind(&on_x).layer_norm(-1, 1e-5)).await?;
        check("layer_norm", y, 1e-5, |i| {
            let mean = row(i).sum::<f64>() / SIDE as f64;
            let variance = row(i).map(|x| (x - mean).powi(2)).sum::<f64>() / SIDE as f64;
            (f64::from(x[i]) - mean) / (variance + 1e-5).sqrt()
        })
    }

    async fn sum(&self) -> Result<(), Box<dyn Error>> {
        let x = Random::new(6).floats(CHAIN);
        let on_x = self.resident(&x, &[CHAIN])?;
        let bytes = Work::Bytes(4.0 * CHAIN as f64);
        let y = self.case("sum_64e6", bytes, |b| b.bind(&on_x).sum(..)).await?;
        let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
        check("sum", y, 1e-6 * (CHAIN as f64).sqrt(), |_| exact)
    }

    /// 784-512-256-10 with relu, 64 rows, from host memory to host memory, weights resident.
    async fn network(&self) -> Result<(), Box<dyn Error>> {
        const NAME: &str = "mlp_784_512_256_10_batch64_host_to_host";
        if !self.wants(NAME) {
            return Ok(());
        }
        let mut random = Random::new(7);
        let x = random.floats(64 * 784);
        let mut layers = Vec::new();
        for [inputs, outputs] in [[784, 512], [512, 256], [256, 10]] {
            let scaled: Vec<f32> =
                random.floats(inputs * outputs).iter().map(|w| w * 0.05).collect();
            let w = self.resident(&scaled, &[inputs, outputs])?;
            layers.push((w, self.resident(&random.floats(outputs), &[outputs])?));
        }
        let start = Instant::now();
        let batch = GpuCommandBatch::new(&self.device);
        let on_x = batch.upload_shaped(&x, [64, 784]);
        let mut y = on_x;
        for (at, (w, bias)) in layers.iter().enumerate() {
            let (w, bias) = (batch.bind(w), batch.bind(bias));
            y = y.linear(w, bias);
            if at < 2 {
                y = y.relu();
            }
        }
        batch.execute().await?;
        batch.read(y).await?;
        let first = start.elapsed();
        if self.first_only {
            println!("kernel {NAME} - - {} # {}", milliseconds(first), batch.stats());
            return Ok(());
        }
        let time = median(BUDGET, async || {
            batch.write(on_x, &x)?;
            batch.execute().await?;
            batch.read(y).await.map(drop)
        });
        let time = time.await?;
        let flops = 2.0 * 64.0 * (784.0 * 512.0 + 512.0 * 256.0 + 2560.0);
        let rate = flops / time.as_secs_f64() / 1e12;
        println!("kernel {NAME} {} {rate:.2} TFLOP/s {}", milliseconds(time), milliseconds(first));
        Ok(())
    }
}
