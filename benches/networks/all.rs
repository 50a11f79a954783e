//! The networks that are measured on the CPU, with their shapes.

mod gru;
mod magika;
mod unet;
mod voice;

use onetrip::Tensor;

use crate::networks::{Real, Result, Weights, bert, length, mobilenet, resnet};

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
