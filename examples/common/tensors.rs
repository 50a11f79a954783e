//! Tensors of the files in `data/`.

use std::error::Error;
use std::path::PathBuf;

use safetensors::{Dtype, SafeTensors};

/// The bytes of a safetensors file of `data/`.
pub struct Tensors(pub Vec<u8>);

impl Tensors {
    pub fn load(name: &str) -> Result<Self, Box<dyn Error>> {
        Ok(Self(std::fs::read(path(name))?))
    }

    /// A tensor of `f32` and its shape.
    pub fn get(&self, name: &str) -> Result<(Vec<f32>, Vec<usize>), Box<dyn Error>> {
        let file = SafeTensors::deserialize(&self.0)?;
        let tensor = file.tensor(name)?;
        if tensor.dtype() != Dtype::F32 {
            return Err(format!("{name} holds {:?}, not f32", tensor.dtype()).into());
        }
        let words = tensor.data().as_chunks::<4>().0;
        Ok((words.iter().map(|&b| f32::from_le_bytes(b)).collect(), tensor.shape().to_vec()))
    }
}

/// A file of `data/`.
pub fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "data", name].iter().collect()
}
