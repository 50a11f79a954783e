//! The cases that peers have too: the same names, shapes and numbers as in `benches/peers`.

mod convolutions;
mod elements;
mod movement;
mod products;
mod reductions;
mod rows;
mod sequences;
mod windows;

use std::error::Error;

use onetrip::Tensor;

use crate::all_networks::{Network, networks};
use crate::networks::weights::spread;
use crate::networks::{Weights, numbers};

/// A tensor of made-up numbers in `middle` ± `spread`.
#[derive(Clone)]
pub struct Given {
    pub name: &'static str,
    pub shape: Vec<usize>,
    pub spread: f32,
    pub middle: f32,
}

impl Given {
    fn new(name: &'static str, shape: &[usize]) -> Self {
        Self { name, shape: shape.to_vec(), spread: 1.0, middle: 0.0 }
    }

    /// Filters or a matrix whose sums have so many terms.
    fn weights(name: &'static str, shape: &[usize], terms: usize) -> Self {
        Self { spread: spread(3.0, terms), ..Self::new(name, shape) }
    }

    fn scaled(self, spread: f32) -> Self {
        Self { spread, ..self }
    }

    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn numbers(&self) -> Vec<f32> {
        numbers(self.name, self.len(), self.spread, self.middle)
    }
}

type Record = dyn for<'b> Fn(
    &Weights,
    &[Tensor<'b, f32>],
    &[Tensor<'b, f32>],
) -> Result<Tensor<'b, f32>, Box<dyn Error>>;
/// An element of the result in double precision, from the numbers of inputs and weights.
type Exact = dyn Fn(&[Vec<f32>], usize) -> f64;

/// One case.
pub struct Case {
    pub name: String,
    /// The inputs that each run brings.
    pub inputs: Vec<Given>,
    /// The weights that lie on the device.
    pub weights: Vec<Given>,
    /// Records the result over inputs and weights.
    pub record: Box<Record>,
    /// Elements in double precision; `None` where they would take long.
    pub exact: Option<Box<Exact>>,
    /// True if one run takes long in a build that is not optimised.
    pub long: bool,
}

impl Case {
    fn new(
        name: impl Into<String>,
        inputs: Vec<Given>,
        weights: Vec<Given>,
        record: impl for<'b> Fn(&[Tensor<'b, f32>], &[Tensor<'b, f32>]) -> Tensor<'b, f32> + 'static,
    ) -> Self {
        let long = inputs.iter().map(Given::len).sum::<usize>() > 8_000_000;
        Self {
            name: name.into(),
            inputs,
            weights,
            record: Box::new(move |_, inputs, weights| Ok(record(inputs, weights))),
            exact: None,
            long,
        }
    }

    fn exactly(self, exact: impl Fn(&[Vec<f32>], usize) -> f64 + 'static) -> Self {
        Self { exact: Some(Box::new(exact)), ..self }
    }

    fn network(network: &'static Network, batch: usize) -> Self {
        let [spread, middle] = network.range;
        let x = Given { spread, middle, ..Given::new("x", &(network.input)(batch)) };
        Self {
            name: format!("{}_batch{batch}", network.name),
            inputs: vec![x],
            weights: Vec::new(),
            record: Box::new(|weights, inputs, _| (network.record)(weights, inputs[0])),
            exact: None,
            long: batch > 1,
        }
    }
}

/// All cases: single operations, then whole networks.
pub fn all() -> Vec<Case> {
    let networks = networks().flat_map(|network| {
        network.batches.iter().map(move |&batch| Case::network(network, batch))
    });
    let operations = [
        convolutions::cases(),
        windows::cases(),
        movement::cases(),
        rows::cases(),
        reductions::cases(),
        products::cases(),
        sequences::cases(),
        elements::cases(),
    ];
    operations.into_iter().flatten().chain(products::mlps()).chain(networks).collect()
}
