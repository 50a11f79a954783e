//! Devices.

use std::rc::Rc;

use js_sys::Promise;
use onetrip::GpuCommandBatch;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

use crate::batch::Batch;
use crate::values::object;
use crate::words::in_javascript;
use crate::{plan, thrown};

/// A device: the browser's GPU, or the CPU by WebAssembly.
#[wasm_bindgen]
pub struct Device(pub(crate) onetrip::Device);

#[wasm_bindgen]
impl Device {
    /// Opens the GPU of the browser. Where there is none, or only one in software, it is the CPU, and
    /// `info().fallback` says why.
    pub async fn auto() -> Result<Self, JsValue> {
        onetrip::Device::auto().await.map(Self).map_err(|error| thrown(&error))
    }

    /// Opens the GPU of the browser, also one in software.
    pub async fn gpu() -> Result<Self, JsValue> {
        onetrip::Device::gpu().await.map(Self).map_err(|error| thrown(&error))
    }

    /// The CPU, on one thread.
    pub fn cpu() -> Self {
        Self(onetrip::Device::cpu())
    }

    /// A description of the device.
    #[wasm_bindgen(unchecked_return_type = "DeviceInfo")]
    pub fn info(&self) -> JsValue {
        let info = self.0.info();
        object([
            ("name", info.name.as_str().into()),
            ("api", info.api.as_str().into()),
            ("driver", info.driver.as_str().into()),
            ("software", info.software.into()),
            ("isGpu", self.0.is_gpu().into()),
            (
                "fallback",
                info.fallback.as_deref().map_or(JsValue::NULL, |why| in_javascript(why).into()),
            ),
        ])
        .into()
    }

    /// The speed of both sides as it is known now: typical figures until it was measured.
    #[wasm_bindgen(unchecked_return_type = "DeviceProfile")]
    pub fn profile(&self) -> JsValue {
        plan::figures(&self.0.profile())
    }

    /// Measures the speed of both sides. Later plans use the new figures.
    #[wasm_bindgen(unchecked_return_type = "Promise<DeviceProfile>")]
    pub fn calibrate(&self) -> Promise {
        let device = self.0.clone();
        future_to_promise(async move {
            let profile = device.calibrate().await;
            profile.map(|profile| plan::figures(&profile)).map_err(|error| thrown(&error))
        })
    }

    /// An empty batch, to record operations; it is made at a line of the user's code.
    pub fn batch(&self, file: &str, line: u32) -> Batch {
        Batch::new(Rc::new(GpuCommandBatch::new_at(&self.0, file, line)))
    }

    /// Loses the GPU, as a driver might: for tests of recovery.
    #[wasm_bindgen(js_name = simulateLoss)]
    pub fn simulate_loss(&self) {
        self.0.simulate_loss();
    }
}
