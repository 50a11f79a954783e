//! ResNet-18 (He et al., 2015, <https://arxiv.org/abs/1512.03385>), with torchvision's names of weights.

use onetrip::{Pool2d, Tensor};

use super::{ConvNorm, Real, Result, Weights, length, linear};

/// Filters of the four stages, each of two blocks.
const STAGES: [usize; 4] = [64, 128, 256, 512];
const CLASSES: usize = 1000;

/// Images `[n, 3, 224, 224]` to `[n, 1000]`.
pub fn record<'b, T: Real>(weights: &Weights<T>, x: Tensor<'b, T>) -> Result<Tensor<'b, T>> {
    let stem = ConvNorm { conv: "conv1", norm: "bn1", filters: 64, size: 7, stride: 2, groups: 1 };
    let pool = Pool2d { stride: Some([2, 2]), padding: [(1, 1); 2], ..Pool2d::new([3, 3]) };
    let mut x = stem.over(weights, x)?.relu().max_pool2d(pool);
    for (stage, filters) in STAGES.into_iter().enumerate() {
        for at in 0..2 {
            let stride = if stage > 0 && at == 0 { 2 } else { 1 };
            x = block(weights, &format!("layer{}.{at}", stage + 1), x, filters, stride)?;
        }
    }
    let x = x.global_avg_pool().reshape([length(x, 0), STAGES[3]]);
    linear(weights, "fc", x, [STAGES[3], CLASSES])
}

/// Two convolutions, and the input added to them.
fn block<'b, T: Real>(
    weights: &Weights<T>,
    name: &str,
    x: Tensor<'b, T>,
    filters: usize,
    stride: usize,
) -> Result<Tensor<'b, T>> {
    let part = |conv: &str, norm: &str, x: Tensor<'b, T>, size, stride| {
        let (conv, norm) = (&*format!("{name}.{conv}"), &*format!("{name}.{norm}"));
        ConvNorm { conv, norm, filters, size, stride, groups: 1 }.over(weights, x)
    };
    let y = part("conv1", "bn1", x, 3, stride)?.relu();
    let y = part("conv2", "bn2", y, 3, 1)?;
    let same = stride == 1;
    let x = if same { x } else { part("downsample.0", "downsample.1", x, 1, stride)? };
    Ok((y + x).relu())
}
