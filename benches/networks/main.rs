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

use std::error::Error;
use std::time::{Duration, Instant};

use networks::{Network, Weights, networks, numbers};
use onetrip::{CellWeights, Device, GpuCommandBatch, Program, Recurrence, Tensor};
use timing::{Budget, median, milliseconds};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const BUDGET: Budget = Budget { least: 5, most: 1000, time: Duration::from_millis(400) };
const ONCE: Budget = Budget { least: 1, most: 1, time: Duration::ZERO };
/// The greatest difference between the sides, in parts of the greatest element.
const TOLERANCE: f32 = 1e-3;

/// A network with the batches that are measured on a GPU.
struct Case {
    name: &'static str,
    network: &'static Network,
    /// The network is repeated so often, each time with weights of its own.
    layers: usize,
    batches: [usize; 3],
}

/// A layer of long short-term memory (Hochreiter and Schmidhuber, 1997) over 100 steps.
static LSTM: Network = Network {
    name: "lstm_100",
    batches: &[1],
    input: |n| vec![100, n, 64],
    range: [1.0, 0.0],
    record: |weights, x| {
        let b = x.batch();
        let input = weights.filters("weight_ih_l0", &[4 * STATES, 64])?;
        let hidden = weights.filters("weight_hh_l0", &[4 * STATES, STATES])?;
        let bias = ["bias_ih_l0", "bias_hh_l0"].map(|name| weights.bias(name, 4 * STATES));
        let [first, second] = bias;
        let cell = CellWeights::new(b, &input, &hidden).with_bias(b, [&first?, &second?]);
        Ok(x.lstm(&[cell], None, Recurrence::default()).0)
    },
};
const STATES: usize = 128;

fn cases() -> Vec<Case> {
    let known = |name| networks().find(move |network| network.name == name);
    let listed = [
        ("bert_base", known("bert_layer"), 12, [1, 8, 32]),
        ("resnet18", known("resnet18"), 1, [1, 8, 64]),
        ("mobilenet_v2", known("mobilenet_v2"), 1, [1, 8, 64]),
        ("lstm_100", Some(&LSTM), 1, [1, 8, 64]),
    ];
    let case =
        |(name, network, layers, batches)| Some(Case { name, network: network?, layers, batches });
    listed.into_iter().filter_map(case).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let profile = args.iter().any(|arg| arg == "--profile");
    let gpu = Device::gpu().await.ok().filter(|gpu| !gpu.info().software);
    let device = gpu.clone().unwrap_or_else(Device::cpu);
    println!("# {}", device.info());
    for case in cases() {
        if !names.is_empty() && !names.iter().any(|&name| case.name.contains(name)) {
            continue;
        }
        let batches = if gpu.is_some() { &case.batches[..] } else { &case.network.batches[..1] };
        let budget = if gpu.is_some() { BUDGET } else { ONCE };
        let weights: Vec<_> = (0..case.layers).map(|_| Weights::new(&device)).collect();
        for &n in batches {
            case.measure(&device, &weights, n, budget, profile).await?;
        }
        if gpu.is_some() {
            case.check(&device, &weights).await?;
        }
    }
    Ok(())
}

impl Case {
    fn record<'b>(&self, weights: &[Weights], x: Tensor<'b, f32>) -> Result<Tensor<'b, f32>> {
        weights.iter().try_fold(x, |x, weights| (self.network.record)(weights, x))
    }

    /// The shape of a batch of `n`, and made-up numbers.
    fn input(&self, n: usize) -> (Vec<usize>, Vec<f32>) {
        let shape = (self.network.input)(n);
        let [spread, middle] = self.network.range;
        let data = numbers("x", shape.iter().product(), spread, middle);
        (shape, data)
    }

    async fn measure(
        &self,
        device: &Device,
        weights: &[Weights],
        n: usize,
        budget: Budget,
        profile: bool,
    ) -> Result<()> {
        let name = self.name;
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
            outputs.into_vec::<f32>(result).await.map(drop)
        };
        let time = milliseconds(median(budget, pass).await?);
        println!("network {name} {n} host onetrip {time}");
        if profile {
            println!("{}", program.profile([("x", &data)]).await?);
        }
        Ok(())
    }

    /// The network over the input "x", and the name of its result.
    async fn program(
        &self,
        device: &Device,
        weights: &[Weights],
        shape: &[usize],
    ) -> Result<(Program, &'static str)> {
        let batch = GpuCommandBatch::new(device);
        let x = batch.input::<f32>("x", shape);
        self.record(weights, x)?.named("y").download();
        Ok((batch.compile().await?, "y"))
    }

    /// Fails where the result for one element of a batch is far from that of the CPU.
    async fn check(&self, device: &Device, weights: &[Weights]) -> Result<()> {
        let (shape, data) = self.input(1);
        let cpu = Device::cpu();
        let on_cpu: Vec<Weights> = weights.iter().map(|_| Weights::new(&cpu)).collect();
        let mut results = Vec::new();
        for (device, weights) in [(device, weights), (&cpu, &on_cpu[..])] {
            let (program, result) = self.program(device, weights, &shape).await?;
            results.push(program.run([("x", &data)]).await?.into_vec::<f32>(result).await?);
        }
        let greatest = results[1].iter().fold(0.0_f32, |greatest, x| greatest.max(x.abs()));
        let is_far = |(a, b): (&f32, &f32)| (a - b).abs() > TOLERANCE * greatest || a.is_nan();
        match results[0].iter().zip(&results[1]).position(is_far) {
            None => Ok(()),
            Some(at) => Err(format!("{}: the sides differ at {at}", self.name).into()),
        }
    }
}
