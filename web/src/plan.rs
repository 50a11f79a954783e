//! Plans, profiles and figures of devices as objects of JavaScript.

use std::time::Duration;

use js_sys::Array;
use onetrip::{
    Backend, Curve, DeviceProfile, Explanation, KernelProfile, RunStats, Shape, SideProfile,
};
use wasm_bindgen::prelude::*;

use crate::values::{object, seconds, set, shape_array};
use crate::words::in_javascript;

/// The text of a plan, with the names of JavaScript.
pub(crate) fn plan_text(plan: &Explanation) -> String {
    in_javascript(&plan.to_string())
}

/// A plan: its kernels, their sides, and the predictions.
#[wasm_bindgen]
pub struct Plan(pub(crate) Explanation);

#[wasm_bindgen]
impl Plan {
    /// The figures of the plan.
    #[wasm_bindgen(unchecked_return_type = "PlanFigures")]
    pub fn figures(&self) -> JsValue {
        let Self(plan) = self;
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
            ("text", plan_text(plan).into()),
        ])
        .into()
    }

    /// The plan as one page of HTML.
    #[wasm_bindgen(js_name = toHtml)]
    pub fn to_html(&self) -> String {
        self.0.to_html()
    }

    /// The recorded graph as SVG.
    #[wasm_bindgen(js_name = toSvg)]
    pub fn to_svg(&self) -> String {
        self.0.to_svg()
    }
}

/// The times of one run.
#[wasm_bindgen]
pub struct Profile(pub(crate) onetrip::Profile);

#[wasm_bindgen]
impl Profile {
    /// The figures of the run.
    #[wasm_bindgen(unchecked_return_type = "ProfileFigures")]
    pub fn figures(&self) -> JsValue {
        let Self(profile) = self;
        object([
            ("device", profile.device.as_str().into()),
            ("backend", name(profile.backend).into()),
            ("kernels", profile.kernels.iter().map(kernel).collect::<Array>().into()),
            ("stats", stats(&profile.stats)),
        ])
        .into()
    }

    /// The plan that ran with its measured times, as one page of HTML.
    #[wasm_bindgen(js_name = toHtml)]
    pub fn to_html(&self) -> String {
        self.0.to_html()
    }
}

/// The mean of runs of one plan: the clock of a browser has coarse steps.
pub(crate) struct MeanProfile {
    first: onetrip::Profile,
    times: Vec<Option<Duration>>,
    run_time: Duration,
    runs: u32,
}

impl MeanProfile {
    pub fn new(first: onetrip::Profile) -> Self {
        let times = first.kernels.iter().map(|kernel| kernel.time).collect();
        Self { times, run_time: first.stats.run_time, first, runs: 1 }
    }

    /// Adds a run. One with another plan begins anew.
    pub fn add(&mut self, next: onetrip::Profile) {
        let kernels = |profile: &onetrip::Profile| {
            profile
                .kernels
                .iter()
                .map(|kernel| (kernel.kernel.clone(), kernel.backend))
                .collect::<Vec<_>>()
        };
        if kernels(&self.first) != kernels(&next) {
            *self = Self::new(next);
            return;
        }
        for (sum, kernel) in self.times.iter_mut().zip(&next.kernels) {
            *sum = sum.zip(kernel.time).map(|(sum, time)| sum + time);
        }
        self.run_time += next.stats.run_time;
        self.runs += 1;
    }

    pub fn done(mut self) -> Profile {
        for (kernel, sum) in self.first.kernels.iter_mut().zip(self.times) {
            kernel.time = sum.map(|sum| sum / self.runs);
        }
        self.first.stats.run_time = self.run_time / self.runs;
        Profile(self.first)
    }
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
