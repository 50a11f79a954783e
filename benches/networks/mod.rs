//! Whole networks from public descriptions, recorded as a user would, with made-up weights. They run on any device.

mod bert;
mod gru;
mod magika;
mod mobilenet;
mod resnet;
mod unet;
mod voice;
pub mod weights;

use std::error::Error;

use onetrip::{Conv2d, Tensor};
pub use weights::{Weights, numbers};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// ε of batch normalisations.
const EPSILON: f32 = 1e-5;

/// A network of one input and one result.
pub struct Network {
    pub name: &'static str,
    /// Sizes of batches to measure.
    pub batches: &'static [usize],
    /// The shape of the input for so many elements of a batch.
    pub input: fn(batch: usize) -> Vec<usize>,
    /// The input's numbers are uniform in the second ± the first.
    pub range: [f32; 2],
    /// Records the network over an input.
    pub record: for<'b> fn(&Weights, Tensor<'b, f32>) -> Result<Tensor<'b, f32>>,
}

/// Networks whose weights are made up or lie in `data/`, and magika if `MAGIKA_MODEL` is the path of its model.
pub fn networks() -> impl Iterator<Item = &'static Network> {
    NETWORKS.iter().filter(|network| network.name != "magika" || magika::model().is_some())
}

static NETWORKS: [Network; 7] = [
    Network { name: "resnet18", input: |n| vec![n, 3, 224, 224], record: resnet::record, ..USUAL },
    Network {
        name: "mobilenet_v2",
        input: |n| vec![n, 3, 224, 224],
        record: mobilenet::record,
        ..USUAL
    },
    Network { name: "unet_block", input: |n| vec![n, 3, 128, 128], record: unet::record, ..USUAL },
    Network {
        name: "bert_layer",
        input: |n| vec![n, 128, bert::WIDTH],
        record: bert::record,
        ..USUAL
    },
    Network { name: "gru_100", input: |n| vec![100, n, gru::INPUTS], record: gru::record, ..USUAL },
    // The windows of two seconds, one after the other.
    Network {
        name: "voice",
        batches: &[1],
        input: |_| vec![59, 576],
        record: voice::record,
        ..USUAL
    },
    Network {
        name: "magika",
        input: |n| vec![n, magika::TOKENS],
        range: [128.0, 128.0],
        record: magika::record,
        ..USUAL
    },
];

const USUAL: Network = Network {
    name: "",
    batches: &[1, 8],
    input: |n| vec![n],
    range: [1.0, 0.0],
    record: |_, x| Ok(x),
};

/// A convolution without a bias, and the normalisation of its channels.
struct ConvNorm<'n> {
    conv: &'n str,
    norm: &'n str,
    filters: usize,
    size: usize,
    stride: usize,
    groups: usize,
}

impl ConvNorm<'_> {
    /// The two over `x`, padded so that a stride of 1 keeps the size.
    fn over<'b>(&self, weights: &Weights, x: Tensor<'b, f32>) -> Result<Tensor<'b, f32>> {
        let Self { conv, norm, filters, size, stride, groups } = *self;
        let w = weights
            .filters(&format!("{conv}.weight"), &[filters, length(x, 1) / groups, size, size])?;
        let (stride, padding) = ([stride; 2], [(size / 2, size / 2); 2]);
        let y = x.conv2d(&w, None, Conv2d { stride, padding, groups, ..Conv2d::default() });
        let mean = weights.bias(&format!("{norm}.running_mean"), filters)?;
        let variance = weights.factors(&format!("{norm}.running_var"), filters)?;
        let weight = weights.factors(&format!("{norm}.weight"), filters)?;
        let bias = weights.bias(&format!("{norm}.bias"), filters)?;
        Ok(y.batch_norm(&mean, &variance, &weight, &bias, EPSILON))
    }
}

/// x·W + b by the weights of a name.
fn linear<'b>(
    weights: &Weights,
    name: &str,
    x: Tensor<'b, f32>,
    [inputs, outputs]: [usize; 2],
) -> Result<Tensor<'b, f32>> {
    let w = weights.matrix(&format!("{name}.weight"), [inputs, outputs])?;
    Ok(x.linear(&w, &weights.bias(&format!("{name}.bias"), outputs)?))
}

/// The length along an axis; 1 where a mistake left no shape, which the run reports.
fn length(x: Tensor<'_, f32>, axis: usize) -> usize {
    x.shape().map_or(1, |shape| shape[axis])
}
