//! Other types beside `f32`: a graph over residents of one type, and one over residents of `f32` that hold the same
//! numbers, in turn. The results stay with the engine.
//!
//! `<type> <case> <type_ms> <f32_ms> <ratio>`. The results of both are compared.

use std::error::Error;
use std::time::{Duration, Instant};

use onetrip::{BufferId, Device, Element, GpuCommandBatch, Tensor, f16};

use crate::networks::numbers;
use crate::timing::milliseconds;

/// The greatest difference that is fine, in parts of the greatest element: halves have 11 bits, and sums of them more
/// than one rounding.
const TOLERANCE: f32 = 4e-3;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A type of the cases.
trait BenchElement: Element {
    /// The element for a number from −1 to 1.
    fn of(x: f32) -> Self;

    /// The element as a number.
    fn number(self) -> f32;
}

impl BenchElement for f32 {
    fn of(x: f32) -> Self {
        x
    }

    fn number(self) -> f32 {
        self
    }
}

impl BenchElement for f16 {
    fn of(x: f32) -> Self {
        Self::from_f32(x)
    }

    fn number(self) -> f32 {
        self.to_f32()
    }
}

impl BenchElement for i32 {
    fn of(x: f32) -> Self {
        (x * 100.0) as Self
    }

    fn number(self) -> f32 {
        self as f32
    }
}

impl BenchElement for bool {
    fn of(x: f32) -> Self {
        x > 0.0
    }

    fn number(self) -> f32 {
        self.into()
    }
}

/// The cases: a type, a name, the shapes of the operands, and the graph. A graph of its own for `f32`
/// may follow.
macro_rules! cases {
    ($($t:ident $name:literal $shapes:expr, |$x:ident| $graph:expr $(, f32: $floats:expr)?;)*) => {
        /// Measures the cases whose names contain `filter`, each for so long.
        pub fn run(filter: &str, time: Duration) -> Result<()> {
            $(if $name.contains(filter) {
                let floats = record!(f32, $x, $graph $(, $floats)?);
                let case = [stringify!($t), $name];
                measure(case, &$shapes, record!($t, $x, $graph), floats, time)?;
            })*
            Ok(())
        }
    };
}

/// The function that records the last graph for a type.
macro_rules! record {
    ($t:ident, $x:ident, $graph:expr, $floats:expr) => {
        record!($t, $x, $floats)
    };
    ($t:ident, $x:ident, $graph:expr) => {{
        fn record<'b>($x: &[Tensor<'b, $t>]) -> Tensor<'b, $t> {
            $graph
        }
        record
    }};
}

cases! {
    f16 "map_1e7" [&[10_000_000]], |x| x[0].scale(f16::from_f32(1.25)).add_scalar(f16::from_f32(0.5)).relu(),
        f32: x[0].scale(1.25).add_scalar(0.5).relu();
    f16 "add_1e7" [&[10_000_000], &[10_000_000]], |x| x[0] + x[1];
    f16 "sum_10000x1000" [&[10_000, 1000]], |x| x[0].sum(1);
    f16 "softmax_4096x1024" [&[4096, 1024]], |x| x[0].softmax(-1);
    f16 "log_softmax_4096x1024" [&[4096, 1024]], |x| x[0].log_softmax(-1);
    f16 "rms_norm_4096x1024" [&[4096, 1024]], |x| x[0].rms_norm(1, 1e-5);
    f16 "layer_norm_4096x1024" [&[4096, 1024]], |x| x[0].layer_norm(1, 1e-5);
    f16 "transpose_2048x2048" [&[2048, 2048]], |x| x[0].transpose();
    f16 "matmul_1x4096x4096" [&[1, 4096], &[4096, 4096]], |x| x[0].matmul(x[1]);
    f16 "matmul_64x1024x1024" [&[64, 1024], &[1024, 1024]], |x| x[0].matmul(x[1]);
    f16 "matmul_512" [&[512, 512], &[512, 512]], |x| x[0].matmul(x[1]);
    i32 "map_1e7" [&[10_000_000]], |x| x[0].scale(3).add_scalar(50).relu(),
        f32: x[0].scale(3.0).add_scalar(50.0).relu();
    i32 "add_1e7" [&[10_000_000], &[10_000_000]], |x| x[0] + x[1];
    i32 "sum_10000x1000" [&[10_000, 1000]], |x| x[0].sum(1);
    i32 "max_10000x1000" [&[10_000, 1000]], |x| x[0].amax(1);
    i32 "transpose_2048x2048" [&[2048, 2048]], |x| x[0].transpose();
    bool "and_1e7" [&[10_000_000], &[10_000_000]], |x| x[0].and(x[1]), f32: x[0] * x[1];
    bool "not_1e7" [&[10_000_000]], |x| x[0].not(), f32: 1.0 - x[0];
    bool "any_10000x1000" [&[10_000, 1000]], |x| x[0].any(1), f32: x[0].amax(1);
    bool "transpose_2048x2048" [&[2048, 2048]], |x| x[0].transpose();
}

/// Measures a graph of a type and one of `f32` in turn, and compares their results.
fn measure<T: BenchElement>(
    [of_type, name]: [&str; 2],
    shapes: &[&[usize]],
    narrow: Record<T>,
    floats: Record<f32>,
    time: Duration,
) -> Result<()> {
    let narrow = Recorded::new(shapes, narrow, |x| x)?;
    let floats = Recorded::new(shapes, floats, |x| T::of(x).number())?;
    let (of_narrow, of_floats) = (narrow.values()?, floats.values()?);
    let greatest = of_floats.iter().fold(0.0, |greatest: f32, x| greatest.max(x.abs()));
    let agrees = |(x, y): (f32, f32)| (x - y).abs() <= TOLERANCE * greatest;
    if of_narrow.len() != of_floats.len() || !of_narrow.into_iter().zip(of_floats).all(agrees) {
        return Err(format!("{name}: {of_type} and f32 differ").into());
    }
    let (mut times, start) = ([Vec::new(), Vec::new()], Instant::now());
    while times[0].is_empty() || start.elapsed() < time {
        times[0].push(narrow.time()?);
        times[1].push(floats.time()?);
    }
    let [narrow, floats] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    let ratio = narrow.as_secs_f64() / floats.as_secs_f64();
    println!("{of_type} {name} {} {} {ratio:.2}", milliseconds(narrow), milliseconds(floats));
    Ok(())
}

type Record<T> = for<'b> fn(&[Tensor<'b, T>]) -> Tensor<'b, T>;

/// A recorded graph that has run.
struct Recorded<T: Element> {
    batch: GpuCommandBatch,
    result: BufferId<T>,
}

impl<T: BenchElement> Recorded<T> {
    /// Records a graph over residents of numbers from −1 to 1, which `as_held` replaces, and runs it.
    fn new(shapes: &[&[usize]], record: Record<T>, as_held: impl Fn(f32) -> f32) -> Result<Self> {
        let device = Device::cpu();
        let batch = GpuCommandBatch::new(&device);
        let operands = ["x", "w"].iter().zip(shapes).map(|(name, &shape)| {
            let numbers = numbers(name, shape.iter().product(), 1.0, 0.0);
            let data: Vec<T> = numbers.into_iter().map(|x| T::of(as_held(x))).collect();
            Ok(batch.bind(&device.resident(&data, shape)?))
        });
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
        Ok(self.batch.read_blocking(self.result)?.into_iter().map(T::number).collect())
    }
}
