//! The work of the service: graphs that are recorded anew each time, and programs that share resident weights.

use std::collections::HashMap;

use onetrip::{BufferId, Device, GpuCommandBatch, Program, Resident, Result, Tensor};

/// Columns of every graph's input.
const WIDTH: usize = 32;
/// Kinds of graphs; the last is a program.
pub const KINDS: u64 = 5;
/// Sizes of each kind.
pub const SIZES: u64 = 12;

/// A kind of graph and its size.
pub type Case = (u64, u64);

pub fn all_cases() -> impl Iterator<Item = Case> {
    (0..KINDS).flat_map(|kind| (0..SIZES).map(move |size| (kind, size)))
}

/// The programs of the service, one for each size, and the weights that they share.
pub struct Service {
    device: Device,
    programs: HashMap<u64, (Program, BufferId<f32>, BufferId<f32>)>,
}

impl Service {
    pub async fn new(device: &Device) -> Result<Self> {
        let weights = device.resident(&data(WIDTH), [WIDTH, WIDTH])?;
        weights.keep_host_copy().await?;
        let mut programs = HashMap::new();
        for size in 0..SIZES {
            programs.insert(size, program(device, &weights, size).await?);
        }
        Ok(Self { device: device.clone(), programs })
    }

    /// The bits of the result of a case.
    pub async fn run(&self, (kind, size): Case) -> Result<Vec<u32>> {
        let values = match self.programs.get(&size).filter(|_| kind == KINDS - 1) {
            Some((program, x, y)) => program.run([(*x, data(rows(size)))]).await?.read(*y).await?,
            None => self.device.eval(|b| record(b, kind, size)).await?,
        };
        Ok(values.into_iter().map(f32::to_bits).collect())
    }
}

fn rows(size: u64) -> usize {
    3 + 17 * size as usize
}

fn data(rows: usize) -> Vec<f32> {
    (0..rows * WIDTH).map(|at| ((at * 37 + 11) % 509) as f32 / 255.0 - 1.0).collect()
}

/// tanh(x·w), with the weights where they are.
async fn program(
    device: &Device,
    weights: &Resident<f32>,
    size: u64,
) -> Result<(Program, BufferId<f32>, BufferId<f32>)> {
    let batch = GpuCommandBatch::new(device);
    let x = batch.input::<f32>("x", [rows(size), WIDTH]);
    let w = batch.bind(weights);
    let y = x.matmul(w).tanh();
    Ok((batch.compile().await?, x.id(), y.id()))
}

fn record(b: &GpuCommandBatch, kind: u64, size: u64) -> Tensor<'_, f32> {
    let x = b.upload_shaped(data(rows(size)), [rows(size), WIDTH]);
    match kind {
        0 => b.gelu(x).softmax(-1),
        1 => {
            let t = b.transpose(x);
            b.matmul(x, t).tanh()
        }
        2 => b.layer_norm(x, -1, 1e-5).sum(0),
        _ => b.sin(x).mul(x).cumsum(0),
    }
}
