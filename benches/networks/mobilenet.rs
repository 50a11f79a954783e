//! MobileNet-v2 (Sandler et al., 2018, <https://arxiv.org/abs/1801.04381>), with torchvision's names of weights.

use onetrip::Tensor;

use super::{ConvNorm, Real, Result, Weights, length, linear};

/// Expansion, filters, blocks and the first block's stride of each stage.
const STAGES: [[usize; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];
const LAST: usize = 1280;
const CLASSES: usize = 1000;

/// Images `[n, 3, 224, 224]` to `[n, 1000]`.
pub fn record<'b, T: Real>(weights: &Weights<T>, x: Tensor<'b, T>) -> Result<Tensor<'b, T>> {
    let mut x = part(weights, "features.0", [0, 1], x, [32, 3, 2, 1])?.clip(T::of(0.0), T::of(6.0));
    let mut at = 0;
    for [expansion, filters, blocks, stride] in STAGES {
        for block in 0..blocks {
            at += 1;
            let stride = if block == 0 { stride } else { 1 };
            x = inverted(weights, &format!("features.{at}.conv"), x, [expansion, filters, stride])?;
        }
    }
    let name = format!("features.{}", at + 1);
    let x = part(weights, &name, [0, 1], x, [LAST, 1, 1, 1])?.clip(T::of(0.0), T::of(6.0));
    let x = x.global_avg_pool().reshape([length(x, 0), LAST]);
    linear(weights, "classifier.1", x, [LAST, CLASSES])
}

/// An inverted residual: a wide depthwise convolution between two of 1 × 1.
fn inverted<'b, T: Real>(
    weights: &Weights<T>,
    name: &str,
    x: Tensor<'b, T>,
    [expansion, filters, stride]: [usize; 3],
) -> Result<Tensor<'b, T>> {
    let channels = length(x, 1);
    let wide = channels * expansion;
    let (mut y, mut at) = (x, 0);
    if expansion > 1 {
        y = part(weights, &format!("{name}.0"), [0, 1], y, [wide, 1, 1, 1])?
            .clip(T::of(0.0), T::of(6.0));
        at = 1;
    }
    let middle = format!("{name}.{at}");
    y = part(weights, &middle, [0, 1], y, [wide, 3, stride, wide])?.clip(T::of(0.0), T::of(6.0));
    y = part(weights, name, [at + 1, at + 2], y, [filters, 1, 1, 1])?;
    Ok(if stride == 1 && channels == filters { x + y } else { y })
}

/// A normalised convolution by its number and that of its norm: filters, size, stride, groups.
fn part<'b, T: Real>(
    weights: &Weights<T>,
    name: &str,
    [conv, norm]: [usize; 2],
    x: Tensor<'b, T>,
    [filters, size, stride, groups]: [usize; 4],
) -> Result<Tensor<'b, T>> {
    let (conv, norm) = (&*format!("{name}.{conv}"), &*format!("{name}.{norm}"));
    ConvNorm { conv, norm, filters, size, stride, groups }.over(weights, x)
}
