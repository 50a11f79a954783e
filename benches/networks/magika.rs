//! The network of magika, as the example records it, with the weights of the model in `MAGIKA_MODEL`.

#[path = "../../examples/magika/network.rs"]
mod network;
#[path = "../../examples/magika/onnx.rs"]
mod onnx;

use onetrip::Tensor;

pub use self::network::TOKENS;
use super::{Result, Weights};

/// The path of the model's file, if it is known.
pub fn model() -> Option<String> {
    std::env::var("MAGIKA_MODEL").ok().filter(|path| !path.is_empty())
}

/// Tokens `[files, 2048]`, which come as `f32`, to `[files, 214]`.
pub fn record<'b>(weights: &Weights, x: Tensor<'b, f32>) -> Result<Tensor<'b, f32>> {
    let path = model().ok_or("MAGIKA_MODEL does not tell the path of the model")?;
    let file = onnx::Weights::load(path.as_ref())?;
    network::answers(x.cast::<u32>(), |name, shape| {
        let data = file.get(name, shape.iter().product())?;
        Ok(x.batch().bind(&weights.known(name, shape, &data)?))
    })
}
