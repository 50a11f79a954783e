//! The cases as files of programs, for devices that no test here reaches: `tests/browser.sh` runs them in a browser.
//!
//! `ONETRIP_CASES` names the folder: two programs an operation, the first with a few of its cases. Their results and
//! tolerances are in `cases.json`, and the numbers there as `f64` in `values.bin`. `large.json` lists programs that are
//! compiled alone.

mod large;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onetrip::{Device, GpuCommandBatch, Weights, Wgsl};
use serde_json::{Value, json};

use crate::case::{Case, family};
use crate::{ops, record};

/// Cases of an operation in its first program.
const FEW: usize = 4;

/// Numbers in the order in which they were added.
#[derive(Default)]
struct Numbers(Vec<u8>);

impl Numbers {
    /// The position of the first and the count.
    fn add(&mut self, numbers: &[f64]) -> Value {
        let start = self.0.len() / 8;
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        json!([start, numbers.len()])
    }
}

/// Writes the cases of all `families` to the folder that `ONETRIP_CASES` names.
pub async fn write(families: &[&str]) {
    let folder = std::env::var_os("ONETRIP_CASES").expect("ONETRIP_CASES names a folder");
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut operations: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in families.iter().flat_map(|name| family(name)) {
        operations.entry(case.op.clone()).or_default().push(case);
    }
    let (mut numbers, mut programs) = (Numbers::default(), Vec::new());
    for (operation, cases) in &operations {
        let is_first = |at: usize| at * FEW % cases.len() < FEW;
        for first in [true, false] {
            let chosen = (0..).zip(cases).filter(|&(at, _)| is_first(at) == first);
            let batch = GpuCommandBatch::new(&Device::cpu());
            let outputs: Vec<Value> =
                chosen.map(|(at, case)| output(&batch, &mut numbers, at, case)).collect();
            if outputs.is_empty() {
                continue;
            }
            let file = format!("{operation}{}.safetensors", if first { "" } else { " more" });
            batch.save(folder.join(&file)).await.expect("the program is saved");
            programs.push(json!({
                "operation": operation,
                "file": file,
                "isFirst": first,
                "outputs": outputs,
            }));
        }
    }
    let large = large::programs().await;
    for (name, bytes) in &large {
        std::fs::write(folder.join(format!("large {name}")), bytes).expect("a file");
    }
    let names: Vec<_> = large.iter().map(|(name, _)| format!("large {name}")).collect();
    std::fs::write(folder.join("large.json"), json!(names).to_string()).expect("a file");
    digits(&folder.join("digits.safetensors")).await;
    refused(&folder.join("refused.safetensors")).await;
    std::fs::write(folder.join("values.bin"), numbers.0).expect("a file");
    let text = Value::from(programs).to_string();
    std::fs::write(folder.join("cases.json"), text).expect("a file");
}

/// Records a case as an output by its position, and returns what the output must be.
fn output(batch: &GpuCommandBatch, numbers: &mut Numbers, at: usize, case: &Case) -> Value {
    let output = format!("y{at}");
    ops::name(batch, record(batch, case), &output);
    json!({
        "output": output,
        "case": case.name,
        "dtype": case.output.dtype.to_string(),
        "wanted": numbers.add(&case.output.values()),
        "flushed": case.flushed.as_ref().map(|tensor| numbers.add(&tensor.values())),
        "rtol": case.rtol,
        "atol": case.atol,
        "signedZero": case.signed_zero,
    })
}

/// Saves a kernel of its own that naga takes and browsers refuse: WGSL wants parentheses around the quotient.
async fn refused(path: &Path) {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.input::<u32>("x", 1);
    let source = "@group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(1) fn main() { y[0] = x[0] / 2u ^ x[0]; }";
    batch.wgsl::<u32>(Wgsl::new(source).input(x).groups([1, 1, 1]), 1).named("y");
    batch.save(path).await.expect("the program is saved");
}

/// Saves the network of handwritten digits, with its weights.
async fn digits(path: &Path) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let model = Weights::read(data.join("digits_mlp.safetensors")).expect("the weights");
    let batch = GpuCommandBatch::new(&Device::cpu());
    let mut x = batch.input::<f32>("pixels", [360, 64]);
    for layer in 1..=3 {
        let weight = |name: String| {
            let shape = model.shape(&name).expect("a weight");
            batch.upload_shaped(model.vec::<f32>(&name).expect("numbers"), shape)
        };
        let sums = x.linear(weight(format!("w{layer}")), weight(format!("b{layer}")));
        x = if layer < 3 { sums.relu() } else { sums };
    }
    batch.outputs((x.named("logits"), x.argmax(1).named("class")));
    batch.save(path).await.expect("the program is saved");
}
