//! Runs a batch and compares its results with the interpreter.

use super::devices;
use super::interpret::{ExactTensor, interpret};
use super::sample::for_dtype;
use crate::base::dtype::DType;
use crate::batch::{BufferId, GpuCommandBatch};
use crate::device::Device;
use crate::exec::HostBuffer;
use crate::expr::reference::LaneValue;
use crate::graph::NodeId;
use crate::ops::Tolerance;
use crate::session::RunStats;

/// For values that are moved, not computed.
pub(super) const EXACT: Tolerance = Tolerance { ulp: 0.0, abs: 0.0 };

/// Units in the last place of an `f16`, of its least subnormal, and of the least normal `f32`, below
/// which a GPU may take numbers for 0.
const F16_ULP: f64 = 1.0 / 1024.0;
const F16_TINY: f64 = 6e-8;
const F32_TINY: f64 = 1.2e-38;

/// Records with `record` on every device, runs, and compares every download.
pub(super) fn check(what: &str, tolerance: Tolerance, record: impl Fn(&GpuCommandBatch)) {
    for device in devices() {
        check_on(device, what, tolerance, &record);
    }
}

/// As [`check`], on one device. What the run counted.
pub(super) fn check_on(
    device: &Device,
    what: &str,
    tolerance: Tolerance,
    record: impl Fn(&GpuCommandBatch),
) -> RunStats {
    let batch = GpuCommandBatch::new(device);
    record(&batch);
    let what = format!("{what} on {}", device.info().name);
    if let Err(error) = pollster::block_on(batch.execute()) {
        panic!("{what}: {error}");
    }
    let uploads = batch.uploaded().unwrap();
    let uploads: Vec<&HostBuffer> = uploads.iter().map(AsRef::as_ref).collect();
    let want = interpret(&batch.recorded().graph, &uploads);
    for node in batch.recorded().graph.outputs() {
        compare(&what, &batch, node, &want[node], tolerance);
    }
    #[cfg(feature = "safetensors")]
    if !device.uses(crate::Backend::Gpu) {
        travels(&what, &batch);
    }
    batch.stats().clone()
}

/// The batch that ran, as a file, gives the same results bit for bit, and the same file again.
#[cfg(feature = "safetensors")]
fn travels(what: &str, batch: &GpuCommandBatch) {
    let travelled = async {
        let bytes = batch.to_bytes().await?;
        let program = crate::Program::load_bytes(batch.device(), bytes.clone()).await?;
        let outputs = program.run(()).await?;
        crate::Result::Ok((bytes, program, outputs))
    };
    let (bytes, program, outputs) = pollster::block_on(travelled)
        .unwrap_or_else(|error: crate::Error| panic!("{what}: {error}"));
    assert_eq!(program.fingerprint(), batch.recorded().graph.fingerprint().0, "{what}");
    assert_eq!(pollster::block_on(program.to_bytes()).unwrap(), bytes, "{what}");
    let (own, travelled) = (batch.recorded(), program.recorded());
    let loaded = travelled.graph.outputs();
    assert_eq!(own.graph.outputs().len(), loaded.len(), "{what}");
    for (own_id, id) in own.graph.outputs().into_iter().zip(loaded) {
        let dtype = own.graph[own_id].ty.dtype;
        for_dtype!(dtype, T => {
            let before: Vec<T> =
                pollster::block_on(batch.read(BufferId::new(own_id, own.batch_id))).unwrap();
            let after: Vec<T> =
                pollster::block_on(outputs.read(BufferId::new(id, travelled.batch_id))).unwrap();
            let bytes = |x: &[T]| bytemuck::cast_slice::<T, u8>(x).to_vec();
            assert_eq!(bytes(&before), bytes(&after), "{what}: the loaded program's");
        });
    }
}

fn compare(
    what: &str,
    batch: &GpuCommandBatch,
    node: NodeId,
    want: &ExactTensor,
    tolerance: Tolerance,
) {
    let got = read(batch, node, want.dtype);
    assert_eq!(got.len(), want.values.len(), "{what}");
    let scale = magnitude(want);
    for (index, (got, want_value)) in got.iter().zip(&want.values).enumerate() {
        let fits = match (got, want_value) {
            (LaneValue::F(got), LaneValue::F(exact)) => {
                close(*got, *exact, want.dtype, tolerance, scale)
            }
            _ => got == want_value,
        };
        assert!(
            fits,
            "{what}: element {index} of {} {}: got {got:?}, want {want_value:?}\n{}",
            batch.recorded().graph[node].op.name(),
            batch.recorded().graph[node].ty,
            batch.recorded().graph.to_dot(),
        );
    }
}

/// Returns true if `got` is `exact` as nearly as the tolerance asks.
fn close(got: f64, exact: f64, dtype: DType, tolerance: Tolerance, scale: f64) -> bool {
    if exact.is_nan() || got.is_nan() {
        return exact.is_nan() == got.is_nan();
    }
    let largest = if dtype == DType::F16 { 65_504.0 } else { f64::from(f32::MAX) };
    let allowed = exact.abs() * tolerance.ulp * f64::from(f32::EPSILON)
        + tolerance.abs * scale
        + F32_TINY
        + if dtype == DType::F16 { exact.abs() * F16_ULP + F16_TINY } else { 0.0 };
    if got == exact || (got - exact).abs() <= allowed {
        return true;
    }
    // Past the largest number both the largest and infinity are right, for a result that close to it.
    got.abs() >= largest * 0.999 && exact.abs() >= largest * 0.999 && got.signum() == exact.signum()
}

/// The magnitude that absolute errors are relative to: 1, or the largest finite value beyond that.
fn magnitude(tensor: &ExactTensor) -> f64 {
    let finite = tensor.values.iter().map(|v| v.number().abs()).filter(|x| x.is_finite());
    finite.fold(1.0, f64::max).min(1e30)
}

fn read(batch: &GpuCommandBatch, node: NodeId, dtype: DType) -> Vec<LaneValue> {
    for_dtype!(dtype, T => {
        let id = BufferId::<T>::new(node, batch.batch_id);
        let values = pollster::block_on(batch.read(id)).expect("a download");
        values.into_iter().map(|v| LaneValue::from(crate::Element::scalar(v))).collect()
    })
}
