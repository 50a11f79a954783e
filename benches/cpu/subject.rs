//! One case on the CPU, called as a user would call it best.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use onetrip::{BufferId, Device, GpuCommandBatch, Program, Tensor};

use crate::cases::{Case, Given};
use crate::networks::Weights;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The least runs of a median, and the most.
const LEAST: usize = 3;
const MOST: usize = 2000;
/// The greatest error that is fine, in parts of the greatest element.
const TOLERANCE: f64 = 1e-4;
/// Positions that are compared.
const SAMPLES: usize = 64;

/// The ways of bringing inputs and taking results.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    /// Borrowed slices in, a vector out.
    Slices,
    /// The inputs lie with the engine, and the result is viewed where it is.
    InPlace,
}

/// A case that has run once.
pub struct Subject<'c> {
    case: &'c Case,
    inputs: Vec<Vec<f32>>,
    program: Program,
    ids: Vec<BufferId<f32>>,
    result: BufferId<f32>,
    /// The batch of [`Way::InPlace`] with its result, recorded when first asked for.
    placed: Option<(GpuCommandBatch, BufferId<f32>)>,
    weights: Weights,
    device: Device,
    /// The time from numbers in the host's memory to the first result.
    pub first: Duration,
}

impl<'c> Subject<'c> {
    /// Records, compiles and runs `case`.
    pub fn new(case: &'c Case) -> Result<Self> {
        let inputs: Vec<Vec<f32>> = case.inputs.iter().map(Given::numbers).collect();
        let start = Instant::now();
        let device = Device::cpu();
        let weights = Weights::new(&device);
        let batch = GpuCommandBatch::new(&device);
        let tensors = case.inputs.iter().map(|x| batch.input::<f32>(x.name, &x.shape[..]));
        let tensors: Vec<Tensor<'_, f32>> = tensors.collect();
        let result = recorded(case, &weights, &batch, &tensors)?;
        let ids = tensors.iter().map(|x| x.id()).collect();
        let program = batch.compile_blocking()?;
        let first = Duration::ZERO;
        let mut subject =
            Self { case, inputs, program, ids, result, placed: None, weights, device, first };
        subject.slices()?;
        subject.first = start.elapsed().saturating_sub(subject.weights.time());
        Ok(subject)
    }

    fn slices(&self) -> Result<Vec<f32>> {
        let inputs = self.ids.iter().zip(&self.inputs).map(|(&id, data)| (id, &data[..]));
        Ok(self.program.run_blocking(inputs)?.into_vec_blocking(self.result)?)
    }

    /// The batch of [`Way::InPlace`] and its result.
    fn placed(&mut self) -> Result<&(GpuCommandBatch, BufferId<f32>)> {
        let placed = match self.placed.take() {
            Some(placed) => placed,
            None => self.place()?,
        };
        Ok(self.placed.insert(placed))
    }

    fn place(&self) -> Result<(GpuCommandBatch, BufferId<f32>)> {
        let batch = GpuCommandBatch::new(&self.device);
        let inputs = self.case.inputs.iter().zip(&self.inputs);
        let tensors = inputs.map(|(x, data)| batch.upload_shaped(&data[..], &x.shape[..]));
        let tensors: Vec<Tensor<'_, f32>> = tensors.collect();
        let result = recorded(self.case, &self.weights, &batch, &tensors)?;
        batch.execute_blocking()?;
        Ok((batch, result))
    }

    /// The median time of runs, as many as fit into `time`.
    pub fn median(&mut self, way: Way, time: Duration) -> Result<Duration> {
        if way == Way::Slices {
            return median(time, || self.slices().map(drop));
        }
        let (batch, result) = self.placed()?;
        median(time, || {
            batch.execute_blocking()?;
            black_box(batch.read_view(*result)?.first());
            Ok(())
        })
    }

    /// The results of one more run of either way.
    pub fn results(&mut self) -> Result<[Vec<f32>; 2]> {
        let slices = self.slices()?;
        let (batch, result) = self.placed()?;
        batch.execute_blocking()?;
        Ok([slices, batch.read_blocking(*result)?])
    }

    /// Fails where a sampled element of a result is far from double precision.
    pub fn check(&mut self) -> Result<()> {
        let results = self.results()?;
        let mut data = self.inputs.clone();
        data.extend(self.case.weights.iter().map(Given::numbers));
        for result in results {
            let greatest = result.iter().fold(0.0, |greatest: f32, x| greatest.max(x.abs()));
            let step = (result.len() / SAMPLES).max(1) | 1;
            for (at, &got) in result.iter().enumerate().step_by(step) {
                let want = self.case.exact.as_ref().map_or(f64::from(got), |f| f(&data, at));
                let error = (f64::from(got) - want).abs();
                if error.is_nan() || error > TOLERANCE * f64::from(greatest) {
                    let name = &self.case.name;
                    return Err(format!("{name}: element {at} is {got}, not {want}").into());
                }
            }
        }
        Ok(())
    }
}

fn median(time: Duration, mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < LEAST || (times.len() < MOST && start.elapsed() < time) {
        let begin = Instant::now();
        run()?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Records the case over `inputs`, with its weights on the device, and returns its only result.
fn recorded<'b>(
    case: &Case,
    weights: &Weights,
    batch: &'b GpuCommandBatch,
    inputs: &[Tensor<'b, f32>],
) -> Result<BufferId<f32>> {
    let bound = case
        .weights
        .iter()
        .map(|w| Ok(batch.bind(&weights.resident(w.name, &w.shape, w.spread, w.middle)?)));
    let bound = bound.collect::<Result<Vec<_>>>()?;
    Ok((case.record)(weights, inputs, &bound)?.download().id())
}
