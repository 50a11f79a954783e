//! The engine against values of NumPy and SciPy (`make_reference.py`) and of PyTorch (`make_pytorch.py`) in `f64`, and
//! against Philox as published (`make_random.py`). Cases run one by one, and all cases of a family in one batch, on
//! every backend.

mod by_name;
mod case;
#[cfg(feature = "gpu")]
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "safetensors")]
mod export;
mod layers;
mod made;
mod ops;
mod windows;

use std::collections::BTreeSet;

use case::{Case, Tensor, family};
use onetrip::{Device, GpuCommandBatch};
use ops::Id;

/// One batch a case, so that a failure has one cause.
async fn one_by_one(device: &Device, name: &str) {
    let mut failures = Vec::new();
    for case in family(name) {
        let batch = GpuCommandBatch::new(device);
        let id = record(&batch, &case);
        if let Err(what) = run(&batch).await.and(compare(&batch, &case, id).await) {
            failures.push(format!("{}: {what}", case.name));
        }
    }
    report(&failures);
}

/// All cases in one batch: results must not depend on what else is planned beside them.
async fn together(device: &Device, name: &str) {
    let cases = family(name);
    let batch = GpuCommandBatch::new(device);
    let ids: Vec<Id> = cases.iter().map(|case| record(&batch, case)).collect();
    run(&batch).await.expect("the family runs as one batch");
    let stats = batch.stats();
    assert_eq!((stats.submits, stats.downloads), (1, 1), "one trip");
    assert!(stats.uploads <= 1, "one trip");
    let mut failures = Vec::new();
    for (case, id) in cases.iter().zip(ids) {
        if let Err(what) = compare(&batch, case, id).await {
            failures.push(format!("{}: {what}", case.name));
        }
    }
    report(&failures);
}

fn record(batch: &GpuCommandBatch, case: &Case) -> Id {
    let inputs: Vec<Id> = case.inputs.iter().map(|tensor| ops::upload(batch, tensor)).collect();
    let id = made::record(batch, case, &inputs)
        .or_else(|| layers::record(batch, case, &inputs))
        .or_else(|| ops::record(batch, case, &inputs));
    let id = id.unwrap_or_else(|| panic!("{}: the test does not know how to record it", case.name));
    ops::download(batch, id);
    id
}

async fn run(batch: &GpuCommandBatch) -> Result<(), String> {
    batch.execute().await.map_err(|error| error.to_string())
}

async fn compare(batch: &GpuCommandBatch, case: &Case, id: Id) -> Result<(), String> {
    let shape = ops::shape(batch, id);
    if shape.as_deref() != Some(&case.output.shape[..]) {
        return Err(format!("shape {shape:?}, not {:?}", case.output.shape));
    }
    let got = ops::read(batch, id).await.map_err(|error| error.to_string())?;
    let wanted = case.output.values();
    if got.len() != wanted.len() {
        return Err(format!("{} elements, not {}", got.len(), wanted.len()));
    }
    let flushed = case.flushed.as_ref().map_or_else(|| wanted.clone(), Tensor::values);
    let wrong =
        |&at: &usize| !(case.accepts(got[at], wanted[at]) || case.accepts(got[at], flushed[at]));
    let all: Vec<usize> = (0..got.len()).filter(wrong).collect();
    let Some(&at) = all.first() else { return Ok(()) };
    let inputs: Vec<f64> = case.inputs.iter().filter_map(|x| x.values().get(at).copied()).collect();
    Err(format!(
        "{} of {} wrong, first at {at}: {:e}, not {:e} (inputs there: {inputs:?})",
        all.len(),
        got.len(),
        got[at],
        wanted[at]
    ))
}

fn report(failures: &[String]) {
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
}

/// The adapter, if there is one.
#[cfg(feature = "gpu")]
async fn gpu() -> Option<Device> {
    common::devices().await.into_iter().find(Device::is_gpu)
}

macro_rules! families {
    ($($family:ident)*) => {
        mod cpu {
            use super::*;
            $(#[tokio::test]
            async fn $family() {
                one_by_one(&Device::cpu(), stringify!($family)).await;
                together(&Device::cpu(), stringify!($family)).await;
            })*
        }

        #[cfg(feature = "gpu")]
        mod gpu {
            use super::*;
            $(#[tokio::test]
            async fn $family() {
                let Some(device) = super::gpu().await else { return };
                one_by_one(&device, stringify!($family)).await;
                together(&device, stringify!($family)).await;
            })*
        }

        #[cfg(feature = "safetensors")]
        #[tokio::test]
        #[ignore = "it writes files, for tests/browser.sh"]
        async fn the_cases_as_programs() {
            export::write(&[$(stringify!($family)),*]).await;
        }

        /// An operation without a reference value is a gap.
        #[test]
        fn every_operation_has_a_case() {
            let mut cases = BTreeSet::new();
            $(cases.extend(family(stringify!($family)).into_iter().map(|case| case.op));)*
            let without: Vec<&str> =
                onetrip::registry().map(|op| op.name).filter(|&name| !cases.contains(name)).collect();
            assert!(without.is_empty(), "no case for {without:?}");
        }
    };
}
families!(elementwise reduce row scan sort matmul movement indexing attention recurrent loss convolution pooling normalization resize random creation);

#[test]
fn a_wrong_value_is_seen() {
    let case = Case { rtol: 1e-6, signed_zero: true, ..Case::default() };
    assert!(case.accepts(1.0, 1.0 + 1e-7));
    assert!(!case.accepts(1.0, 1.0 + 1e-5));
    assert!(!case.accepts(f64::NAN, 1.0) && !case.accepts(1.0, f64::NAN));
    assert!(!case.accepts(f64::INFINITY, f64::MAX) && !case.accepts(1.0, f64::INFINITY));
    assert!(!case.accepts(f64::NEG_INFINITY, f64::INFINITY));
    assert!(!case.accepts(0.0, -0.0) && case.accepts(-0.0, -0.0));
}
