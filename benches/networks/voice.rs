//! The network of silero-vad, as the example records it, with the package's weights.

#[path = "../../examples/voice/network.rs"]
mod network;
#[path = "../../examples/common/tensors.rs"]
mod tensors;

use onetrip::Tensor;

use self::tensors::Tensors;
use super::{Result, Weights};

/// `[windows, 576]` to the probability of a voice in each.
pub fn record<'b>(weights: &Weights, x: Tensor<'b, f32>) -> Result<Tensor<'b, f32>> {
    let file = Tensors::load("silero_vad_16k.safetensors")?;
    network::probabilities(x, |name| {
        let (data, shape) = file.get(name)?;
        Ok(x.batch().bind(&weights.known(name, &shape, &data)?))
    })
}
