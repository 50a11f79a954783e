//! Whole networks from public descriptions, recorded as a user would, with made-up weights. They run on any device.

pub mod bert;
pub mod mobilenet;
pub mod resnet;
pub mod weights;

use std::error::Error;

use onetrip::{Conv2d, Tensor};
pub use weights::{Real, Weights, numbers};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// ε of batch normalisations.
const EPSILON: f32 = 1e-5;

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
    fn over<'b, T: Real>(&self, weights: &Weights<T>, x: Tensor<'b, T>) -> Result<Tensor<'b, T>> {
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
fn linear<'b, T: Real>(
    weights: &Weights<T>,
    name: &str,
    x: Tensor<'b, T>,
    [inputs, outputs]: [usize; 2],
) -> Result<Tensor<'b, T>> {
    let w = weights.matrix(&format!("{name}.weight"), [inputs, outputs])?;
    Ok(x.linear(&w, &weights.bias(&format!("{name}.bias"), outputs)?))
}

/// The length along an axis; 1 where a mistake left no shape, which the run reports.
pub fn length<T: Real>(x: Tensor<'_, T>, axis: usize) -> usize {
    x.shape().map_or(1, |shape| shape[axis])
}
