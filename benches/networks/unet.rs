//! One level of a U-Net (Ronneberger et al., 2015, <https://arxiv.org/abs/1505.04597>), with padded convolutions.

use onetrip::{Conv2d, ConvTranspose2d, Pool2d, Tensor};

use super::{Result, Weights, length};

/// Filters of the upper and the lower level.
const UPPER: usize = 32;
const LOWER: usize = 64;

/// Images `[n, 3, height, width]` to `[n, 1, height, width]`.
pub fn record<'b>(weights: &Weights, x: Tensor<'b, f32>) -> Result<Tensor<'b, f32>> {
    let skip = twice(weights, "down", x, UPPER)?;
    let lower = twice(weights, "bottom", skip.max_pool2d(Pool2d::new([2, 2])), LOWER)?;
    let w = weights.filters("up.weight", &[LOWER, UPPER, 2, 2])?;
    let how = ConvTranspose2d { stride: [2, 2], ..ConvTranspose2d::default() };
    let up = lower.conv_transpose2d(&w, &weights.bias("up.bias", UPPER)?, how);
    let joined = x.batch().concat([skip, up], 1);
    conv(weights, "out", twice(weights, "joined", joined, UPPER)?, 1, 1)
}

/// Two convolutions of 3 × 3, each with a relu.
fn twice<'b>(
    weights: &Weights,
    name: &str,
    x: Tensor<'b, f32>,
    filters: usize,
) -> Result<Tensor<'b, f32>> {
    let x = conv(weights, &format!("{name}.0"), x, filters, 3)?.relu();
    Ok(conv(weights, &format!("{name}.1"), x, filters, 3)?.relu())
}

fn conv<'b>(
    weights: &Weights,
    name: &str,
    x: Tensor<'b, f32>,
    filters: usize,
    size: usize,
) -> Result<Tensor<'b, f32>> {
    let w = weights.filters(&format!("{name}.weight"), &[filters, length(x, 1), size, size])?;
    let bias = weights.bias(&format!("{name}.bias"), filters)?;
    let how = Conv2d { padding: [(size / 2, size / 2); 2], ..Conv2d::default() };
    Ok(x.conv2d(&w, &bias, how))
}
