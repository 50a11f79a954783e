//! Plans, profiles and figures of devices as objects of JavaScript.

use js_sys::Array;
use onetrip::{
    Backend, Curve, DeviceProfile, Explanation, KernelProfile, Profile, RunStats, Shape,
    SideProfile,
};
use wasm_bindgen::prelude::*;

use crate::values::{object, seconds, set, shape_array};

/// A plan: its kernels, their sides, and the predictions.
pub(crate) fn plan(plan: &Explanation) -> JsValue {
    let kernels = plan.kernels().iter().zip(plan.sides()).map(|(kernel, side)| {
        JsValue::from(object([("kernel", kernel.into()), ("backend", name(*side).into())]))
    });
    let predictions = object([("cpu", JsValue::NULL), ("gpu", JsValue::NULL)]);
    set(&predictions, name(plan.backend()), &plan.predicted_seconds().into());
    for (side, time) in plan.predictions() {
        set(&predictions, name(side), &time.into());
    }
    object([
        ("backend", name(plan.backend()).into()),
        ("kernels", kernels.collect::<Array>().into()),
        ("dispatches", (plan.dispatches() as f64).into()),
        ("peakBytes", (plan.peak_bytes() as f64).into()),
        ("predicted", plan.predicted_seconds().into()),
        ("predictions", predictions.into()),
        ("text", plan.to_string().into()),
    ])
    .into()
}

/// The times of one run.
pub(crate) fn profile(profile: &Profile) -> JsValue {
    object([
        ("device", profile.device.as_str().into()),
        ("backend", name(profile.backend).into()),
        ("kernels", profile.kernels.iter().map(kernel).collect::<Array>().into()),
        ("stats", stats(&profile.stats)),
    ])
    .into()
}

fn kernel(kernel: &KernelProfile) -> JsValue {
    let shapes = |shapes: &[Shape]| shapes.iter().map(shape_array).collect::<Array>();
    object([
        ("kernel", kernel.kernel.as_str().into()),
        ("form", kernel.form.into()),
        ("place", kernel.place.as_str().into()),
        ("inputs", shapes(&kernel.inputs).into()),
        ("outputs", shapes(&kernel.outputs).into()),
        ("backend", name(kernel.backend).into()),
        ("dispatches", (kernel.dispatches as f64).into()),
        ("time", seconds(kernel.time)),
        ("predicted", seconds(Some(kernel.predicted))),
        ("flops", (kernel.flops as f64).into()),
        ("bytes", (kernel.bytes as f64).into()),
    ])
    .into()
}

fn stats(stats: &RunStats) -> JsValue {
    let count = |number: u64| JsValue::from(number as f64);
    object([
        ("uploads", count(stats.uploads)),
        ("submits", count(stats.submits)),
        ("dispatches", count(stats.dispatches)),
        ("downloads", count(stats.downloads)),
        ("bytesUp", count(stats.bytes_up)),
        ("bytesDown", count(stats.bytes_down)),
        ("peakBytes", count(stats.peak_bytes)),
        ("runTime", seconds(Some(stats.run_time))),
    ])
    .into()
}

/// The figures of both sides, by which graphs are placed.
pub(crate) fn figures(profile: &DeviceProfile) -> JsValue {
    object([
        ("measured", profile.measured.into()),
        ("cpu", side(&profile.cpu)),
        ("gpu", side(&profile.gpu)),
    ])
    .into()
}

/// Rates are those of the largest size that was measured.
fn side(side: &SideProfile) -> JsValue {
    let last = |curve: &Curve| JsValue::from(curve.last());
    object([
        ("roundTrip", side.round_trip.into()),
        ("dispatch", side.dispatch.into()),
        ("upload", last(&side.upload)),
        ("download", last(&side.download)),
        ("memory", last(&side.memory)),
        ("arithmetic", last(&side.arithmetic)),
        ("product", last(&side.product)),
    ])
    .into()
}

fn name(side: Backend) -> &'static str {
    match side {
        Backend::Cpu => "cpu",
        Backend::Gpu => "gpu",
    }
}
