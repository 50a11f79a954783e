//! The constants of an ONNX file, as far as this network needs them: a protobuf message is a list of numbered fields,
//! each a number or bytes (<https://protobuf.dev/programming-guides/encoding>, `onnx.proto` of ONNX 1.16).

use std::error::Error;
use std::path::Path;

/// `ModelProto.graph`, `GraphProto.initializer`, and of a `TensorProto` its name and data.
const GRAPH: u64 = 7;
const INITIALIZER: u64 = 5;
const FLOATS: u64 = 4;
const NAME: u64 = 8;
const RAW: u64 = 9;

/// Constants with their names.
pub struct Weights(Vec<(String, Vec<f32>)>);

impl Weights {
    pub fn load(path: &Path) -> Result<Self, Box<dyn Error>> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let graph = Fields(&bytes).find(|(number, _)| *number == GRAPH);
        let (_, graph) = graph.ok_or_else(|| format!("{} is no ONNX model", path.display()))?;
        let constants = Fields(graph).filter(|(number, _)| *number == INITIALIZER);
        Ok(Self(constants.map(|(_, tensor)| constant(tensor)).collect()))
    }

    /// The `count` elements of the constant whose name ends so.
    pub fn get(&self, name: &str, count: usize) -> Result<Vec<f32>, Box<dyn Error>> {
        let found = self.0.iter().find(|(own, data)| own.ends_with(name) && data.len() == count);
        let (_, data) =
            found.ok_or_else(|| format!("the model has no {name} of {count} numbers"))?;
        Ok(data.clone())
    }
}

fn constant(tensor: &[u8]) -> (String, Vec<f32>) {
    let (mut name, mut data) = (String::new(), Vec::new());
    for (number, bytes) in Fields(tensor) {
        match number {
            NAME => name = String::from_utf8_lossy(bytes).into_owned(),
            FLOATS | RAW => {
                data = bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
            }
            _ => {}
        }
    }
    (name, data)
}

/// The fields of a message that are bytes, each with its number. Ends where the message is not as it should be.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// A number in groups of 7 bits, the least first.
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let key = self.number()?;
            match key & 7 {
                0 => drop(self.number()?),
                1 => drop(self.take(8)?),
                2 => {
                    let len = usize::try_from(self.number()?).ok()?;
                    return Some((key >> 3, self.take(len)?));
                }
                5 => drop(self.take(4)?),
                _ => return None,
            }
        }
    }
}
