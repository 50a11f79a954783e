//! Whole networks on a GPU, with weights that lie there, beside `benches/peers/networks_pytorch.py`.
//!
//! ```text
//! cargo bench --bench networks [-- parts of names] [--profile]
//! ```
//!
//! `network <name> <batch> <data> onetrip <median_ms> <first_ms> # counts`: *data* is `resident` if the input lies on the
//! device and the result stays there, `host` if the input is borrowed and the result becomes a vector. `--profile` prints
//! the time of each kind of kernel too. Results are compared with those of the CPU at sampled positions. Without a GPU,
//! the CPU runs batches of 1 once.

#[path = "mod.rs"]
mod networks;
#[path = "../common/random.rs"]
mod random;
#[path = "../../examples/common/timing.rs"]
mod timing;

use std::time::{Duration, Instant};

use networks::weights::rounded;
use networks::{Real, Result, Weights, bert, mobilenet, numbers, resnet};
use onetrip::{CellWeights, Device, GpuCommandBatch, Program, Recurrence, Tensor, f16};
use timing::{Budget, median, milliseconds};

const BUDGET: Budget = Budget { least: 5, most: 1000, time: Duration::from_millis(400) };
const ONCE: Budget = Budget { least: 1, most: 1, time: Duration::ZERO };

/// Choices of the command line.
struct How<'a> {
    names: &'a [&'a String],
    profile: bool,
    budget: Budget,
}

/// An element type that networks are measured in.
trait Measured: Real {
    /// The end of a network's name in this type.
    const SUFFIX: &'static str;
    /// The greatest difference between the sides, in parts of the greatest element.
    const TOLERANCE: f32;

    fn widened(self) -> f32;
}

impl Measured for f32 {
    const SUFFIX: &'static str = "";
    const TOLERANCE: f32 = 1e-3;

    fn widened(self) -> f32 {
        self
    }
}

impl Measured for f16 {
    const SUFFIX: &'static str = "_f16";
    const TOLERANCE: f32 = 3e-2;

    fn widened(self) -> f32 {
        self.to_f32()
    }
}

/// Records a network over an input.
type Record<T> = for<'b> fn(&Weights<T>, Tensor<'b, T>) -> Result<Tensor<'b, T>>;

/// A network with the batches that are measured on a GPU.
struct Case<T: Real> {
    name: &'static str,
    /// The shape of the input for so many elements of a batch.
    input: fn(batch: usize) -> Vec<usize>,
    record: Record<T>,
    /// The network is repeated so often, each time with weights of its own.
    layers: usize,
    batches: [usize; 3],
}

/// A layer of long short-term memory (Hochreiter and Schmidhuber, 1997) over 100 steps.
fn lstm<'b, T: Real>(weights: &Weights<T>, x: Tensor<'b, T>) -> Result<Tensor<'b, T>> {
    let b = x.batch();
    let input = weights.filters("weight_ih_l0", &[4 * STATES, 64])?;
    let hidden = weights.filters("weight_hh_l0", &[4 * STATES, STATES])?;
    let bias = ["bias_ih_l0", "bias_hh_l0"].map(|name| weights.bias(name, 4 * STATES));
    let [first, second] = bias;
    let cell = CellWeights::with_bias(b, &input, &hidden, [&first?, &second?]);
    Ok(x.lstm(&[cell], None, Recurrence::default()).0)
}
const STATES: usize = 128;

fn cases<T: Real>() -> [Case<T>; 4] {
    let images = |n| vec![n, 3, 224, 224];
    let usual = |name, input, record: Record<T>| Case {
        name,
        input,
        record,
        layers: 1,
        batches: [1, 8, 64],
    };
    let bert = usual("bert_base", |n| vec![n, 128, bert::WIDTH], bert::record);
    [
        Case { layers: 12, batches: [1, 8, 32], ..bert },
        usual("resnet18", images, resnet::record),
        usual("mobilenet_v2", images, mobilenet::record),
        usual("lstm_100", |n| vec![100, n, 64], lstm),
    ]
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let profile = args.iter().any(|arg| arg == "--profile");
    let gpu = Device::gpu().await.ok().filter(|gpu| !gpu.info().software);
    let device = gpu.clone().unwrap_or_else(Device::cpu);
    println!("# {}", device.info());
    let how = How { names: &names, profile, budget: if gpu.is_some() { BUDGET } else { ONCE } };
    measure::<f32>(&device, &how).await?;
    if gpu.is_some() {
        measure::<f16>(&device, &how).await?;
    }
    Ok(())
}

/// Measures and checks the networks of an element type.
async fn measure<T: Measured>(device: &Device, how: &How<'_>) -> Result<()> {
    for case in cases::<T>() {
        if !how.names.is_empty() && !how.names.iter().any(|&name| case.name.contains(name)) {
            continue;
        }
        let batches = if device.is_gpu() { &case.batches[..] } else { &[1] };
        let weights: Vec<_> = (0..case.layers).map(|_| Weights::new(device)).collect();
        for &n in batches {
            case.measure(device, &weights, n, how).await?;
        }
        if device.is_gpu() {
            case.check(device, &weights).await?;
        }
    }
    Ok(())
}

impl<T: Measured> Case<T> {
    fn record<'b>(&self, weights: &[Weights<T>], x: Tensor<'b, T>) -> Result<Tensor<'b, T>> {
        weights.iter().try_fold(x, |x, weights| (self.record)(weights, x))
    }

    /// The shape of a batch of `n`, and made-up numbers.
    fn input(&self, n: usize) -> (Vec<usize>, Vec<T>) {
        let shape = (self.input)(n);
        let data = numbers("x", shape.iter().product(), 1.0, 0.0);
        (shape, rounded(data))
    }

    async fn measure(
        &self,
        device: &Device,
        weights: &[Weights<T>],
        n: usize,
        how: &How<'_>,
    ) -> Result<()> {
        let (name, budget) = (format!("{}{}", self.name, T::SUFFIX), how.budget);
        let (shape, data) = self.input(n);
        let resident = device.resident(&data, &shape[..])?;
        let batch = GpuCommandBatch::new(device);
        let start = Instant::now();
        let kept = batch.keep(self.record(weights, batch.bind(&resident))?);
        batch.execute().await?;
        let made_up: Duration = weights.iter().map(Weights::time).sum();
        let first = milliseconds(start.elapsed().saturating_sub(made_up));
        let time = milliseconds(median(budget, async || batch.execute().await).await?);
        println!("network {name} {n} resident onetrip {time} {first} # {}", batch.stats());
        drop(kept);
        let (program, result) = self.program(device, weights, &shape).await?;
        let pass = async || {
            let outputs = program.run([("x", &data)]).await?;
            outputs.into_vec::<T>(result).await.map(drop)
        };
        let time = milliseconds(median(budget, pass).await?);
        println!("network {name} {n} host onetrip {time}");
        if how.profile {
            println!("{}", program.profile([("x", &data)]).await?);
        }
        Ok(())
    }

    /// The network over the input "x", and the name of its result.
    async fn program(
        &self,
        device: &Device,
        weights: &[Weights<T>],
        shape: &[usize],
    ) -> Result<(Program, &'static str)> {
        let batch = GpuCommandBatch::new(device);
        let x = batch.input::<T>("x", shape);
        self.record(weights, x)?.named("y").download();
        Ok((batch.compile().await?, "y"))
    }

    /// Fails where the result for one element of a batch is far from that of the CPU.
    async fn check(&self, device: &Device, weights: &[Weights<T>]) -> Result<()> {
        let (shape, data) = self.input(1);
        let cpu = Device::cpu();
        let on_cpu: Vec<Weights<T>> = weights.iter().map(|_| Weights::new(&cpu)).collect();
        let mut results = Vec::new();
        for (device, weights) in [(device, weights), (&cpu, &on_cpu[..])] {
            let (program, result) = self.program(device, weights, &shape).await?;
            let result = program.run([("x", &data)]).await?.into_vec::<T>(result).await?;
            results.push(result.into_iter().map(T::widened).collect::<Vec<f32>>());
        }
        let greatest = results[1].iter().fold(0.0_f32, |greatest, x| greatest.max(x.abs()));
        let is_far = |(a, b): (&f32, &f32)| (a - b).abs() > T::TOLERANCE * greatest || a.is_nan();
        match results[0].iter().zip(&results[1]).position(is_far) {
            None => Ok(()),
            Some(at) => Err(format!("{}: the sides differ at {at}", self.name).into()),
        }
    }
}
