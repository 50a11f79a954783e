//! The cases of a family, read from its file.

use std::path::PathBuf;

use onetrip::{DType, f16};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// One call of one operation, and what it must give.
#[derive(Default)]
pub struct Case {
    pub name: String,
    pub op: String,
    pub params: Value,
    pub inputs: Vec<Tensor>,
    pub output: Tensor,
    /// Another right output, for devices that take subnormal numbers for zero.
    pub flushed: Option<Tensor>,
    pub rtol: f64,
    pub atol: f64,
    pub signed_zero: bool,
}

impl Case {
    fn new(case: &Value, file: &SafeTensors<'_>) -> Self {
        let text = |key: &str| case[key].as_str().expect("a string").to_owned();
        let tensor = |name: &Value| Tensor::new(file, name.as_str().expect("a tensor's name"));
        let inputs = case["inputs"].as_array().expect("a list of inputs");
        Self {
            name: text("name"),
            op: text("op"),
            params: case["params"].clone(),
            inputs: inputs.iter().map(tensor).collect(),
            output: tensor(&case["output"]),
            flushed: case.get("flushed").map(tensor),
            rtol: case["rtol"].as_f64().unwrap_or_default(),
            atol: case["atol"].as_f64().unwrap_or_default(),
            signed_zero: case["signed_zero"].as_bool().unwrap_or_default(),
        }
    }

    /// Returns true if `got` stands for `wanted`.
    pub fn accepts(&self, got: f64, wanted: f64) -> bool {
        if wanted.is_nan() || got.is_nan() {
            return wanted.is_nan() && got.is_nan();
        }
        if got == wanted {
            return !self.signed_zero || got.is_sign_negative() == wanted.is_sign_negative();
        }
        wanted.is_finite()
            && got.is_finite()
            && (got - wanted).abs() <= self.atol + self.rtol * wanted.abs()
    }

    /// A numeric or truth parameter; JSON has no infinity, so that is a string.
    pub fn number(&self, key: &str) -> f64 {
        match &self.params[key] {
            Value::Bool(truth) => f64::from(u8::from(*truth)),
            Value::String(text) => text.parse().expect("a number"),
            value => value.as_f64().unwrap_or_else(|| panic!("{}: no number {key}", self.name)),
        }
    }

    pub fn text(&self, key: &str) -> &str {
        self.params[key].as_str().unwrap_or_else(|| panic!("{}: no text {key}", self.name))
    }

    pub fn flag(&self, key: &str) -> bool {
        self.params[key].as_bool().unwrap_or_default()
    }

    /// A list of integers.
    pub fn list<T: TryFrom<i64>>(&self, key: &str) -> Vec<T> {
        integers(&self.params[key])
    }

    /// A list of lists of integers.
    pub fn lists(&self, key: &str) -> Vec<Vec<i64>> {
        self.params[key].as_array().expect("a list of lists").iter().map(integers).collect()
    }
}

fn integers<T: TryFrom<i64>>(list: &Value) -> Vec<T> {
    let entries = list.as_array().expect("a list").iter();
    let integer = |entry: &Value| entry.as_i64().and_then(|n| T::try_from(n).ok());
    entries.map(|entry| integer(entry).expect("an integer")).collect()
}

/// A stored tensor.
pub struct Tensor {
    pub dtype: DType,
    pub shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Default for Tensor {
    fn default() -> Self {
        Self { dtype: DType::F32, shape: vec![0], bytes: Vec::new() }
    }
}

impl Tensor {
    fn new(file: &SafeTensors<'_>, name: &str) -> Self {
        let tensor = file.tensor(name).expect("the tensor is in the file");
        let dtype = match tensor.dtype() {
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::I32 => DType::I32,
            Dtype::U32 => DType::U32,
            Dtype::BOOL => DType::Bool,
            other => panic!("{name} holds {other:?}"),
        };
        Self { dtype, shape: tensor.shape().to_vec(), bytes: tensor.data().to_vec() }
    }

    /// The elements; every element type is exact in an `f64`.
    pub fn values(&self) -> Vec<f64> {
        let words = self.bytes.as_chunks::<4>().0.iter();
        match self.dtype {
            DType::F32 => words.map(|&b| f64::from(f32::from_le_bytes(b))).collect(),
            DType::I32 => words.map(|&b| f64::from(i32::from_le_bytes(b))).collect(),
            DType::U32 => words.map(|&b| f64::from(u32::from_le_bytes(b))).collect(),
            DType::F16 => {
                let halves = self.bytes.as_chunks::<2>().0.iter();
                halves.map(|&b| f16::from_le_bytes(b).to_f64()).collect()
            }
            DType::Bool => self.bytes.iter().map(|&b| f64::from(b)).collect(),
        }
    }
}

/// Every case of `tests/reference/<name>.safetensors`.
pub fn family(name: &str) -> Vec<Case> {
    let directory: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "reference"].iter().collect();
    let bytes = std::fs::read(directory.join(format!("{name}.safetensors"))).expect("the file");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let (_, header) = SafeTensors::read_metadata(&bytes).expect("a safetensors file");
    let cases = header.metadata().as_ref().and_then(|entries| entries.get("cases"));
    let cases: Value = serde_json::from_str(cases.expect("a list of cases")).expect("JSON");
    cases.as_array().expect("a list").iter().map(|case| Case::new(case, &file)).collect()
}
