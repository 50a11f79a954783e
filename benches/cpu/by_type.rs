//! Halves beside floats: the same graph over residents of both types, in turn, its result left with the engine.
//!
//! `half <case> <f16_ms> <f32_ms> <ratio>`. The results of both are compared.

use std::error::Error;
use std::time::{Duration, Instant};

use onetrip::{BufferId, Device, GpuCommandBatch, Tensor, f16};

use crate::networks::{Real, Weights};
use crate::timing::milliseconds;

/// The greatest difference that is fine, in parts of the greatest element: halves have 11 bits, and sums of them more
/// than one rounding.
const TOLERANCE: f32 = 4e-3;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The cases: a name, the shapes of the operands, and the graph, for each type.
macro_rules! cases {
    ($($name:literal $shapes:expr, |$x:ident| $graph:expr;)*) => {
        /// Measures the cases whose names contain `filter`, each for so long.
        pub fn run(filter: &str, time: Duration) -> Result<()> {
            $(if $name.contains(filter) {
                fn record<'b, T: Real>($x: &[Tensor<'b, T>]) -> Tensor<'b, T> { $graph }
                measure($name, &$shapes, record::<f16>, record::<f32>, time)?;
            })*
            Ok(())
        }
    };
}

cases! {
    "map_1e7" [&[10_000_000]], |x| x[0].scale(T::of(1.25)).add_scalar(T::of(0.5)).relu();
    "add_1e7" [&[10_000_000], &[10_000_000]], |x| x[0] + x[1];
    "sum_10000x1000" [&[10_000, 1000]], |x| x[0].sum(1);
    "softmax_4096x1024" [&[4096, 1024]], |x| x[0].softmax(-1);
    "log_softmax_4096x1024" [&[4096, 1024]], |x| x[0].log_softmax(-1);
    "rms_norm_4096x1024" [&[4096, 1024]], |x| x[0].rms_norm(1, 1e-5);
    "layer_norm_4096x1024" [&[4096, 1024]], |x| x[0].layer_norm(1, 1e-5);
    "transpose_2048x2048" [&[2048, 2048]], |x| x[0].transpose();
    "matmul_1x4096x4096" [&[1, 4096], &[4096, 4096]], |x| x[0].matmul(x[1]);
    "matmul_64x1024x1024" [&[64, 1024], &[1024, 1024]], |x| x[0].matmul(x[1]);
    "matmul_512" [&[512, 512], &[512, 512]], |x| x[0].matmul(x[1]);
}

/// Measures a graph of both types in turn, and compares its results.
fn measure(
    name: &str,
    shapes: &[&[usize]],
    halves: Record<f16>,
    floats: Record<f32>,
    time: Duration,
) -> Result<()> {
    let (halves, floats) = (Recorded::new(shapes, halves)?, Recorded::new(shapes, floats)?);
    let (of_halves, of_floats) = (halves.values()?, floats.values()?);
    let greatest = of_floats.iter().fold(0.0, |greatest: f32, x| greatest.max(x.abs()));
    let agrees = |(x, y): (f32, f32)| (x - y).abs() <= TOLERANCE * greatest;
    if of_halves.len() != of_floats.len() || !of_halves.into_iter().zip(of_floats).all(agrees) {
        return Err(format!("{name}: halves and floats differ").into());
    }
    let (mut times, start) = ([Vec::new(), Vec::new()], Instant::now());
    while times[0].is_empty() || start.elapsed() < time {
        times[0].push(halves.time()?);
        times[1].push(floats.time()?);
    }
    let [halves, floats] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    let ratio = halves.as_secs_f64() / floats.as_secs_f64();
    println!("half {name} {} {} {ratio:.2}", milliseconds(halves), milliseconds(floats));
    Ok(())
}

type Record<T> = for<'b> fn(&[Tensor<'b, T>]) -> Tensor<'b, T>;

/// A recorded graph that has run.
struct Recorded<T: Real> {
    batch: GpuCommandBatch,
    result: BufferId<T>,
}

impl<T: Real + Into<f32>> Recorded<T> {
    fn new(shapes: &[&[usize]], record: Record<T>) -> Result<Self> {
        let device = Device::cpu();
        let (weights, batch) = (Weights::new(&device), GpuCommandBatch::new(&device));
        let operands = ["x", "w"]
            .iter()
            .zip(shapes)
            .map(|(name, shape)| Ok(batch.bind(&weights.resident(name, shape, 1.0, 0.0)?)));
        let result = record(&operands.collect::<Result<Vec<_>>>()?).download().id();
        batch.execute_blocking()?;
        Ok(Self { batch, result })
    }

    fn time(&self) -> Result<Duration> {
        let start = Instant::now();
        self.batch.execute_blocking()?;
        Ok(start.elapsed())
    }

    fn values(&self) -> Result<Vec<f32>> {
        Ok(self.batch.read_blocking(self.result)?.into_iter().map(Into::into).collect())
    }
}
