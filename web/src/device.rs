//! Devices.

use std::rc::Rc;

use onetrip::GpuCommandBatch;
use wasm_bindgen::prelude::*;

use crate::batch::Batch;
use crate::thrown;
use crate::values::object;

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
            ("fallback", info.fallback.as_deref().map_or(JsValue::NULL, Into::into)),
        ])
        .into()
    }

    /// An empty batch, to record operations.
    pub fn batch(&self) -> Batch {
        Batch::new(Rc::new(GpuCommandBatch::new(&self.0)))
    }

    /// Loses the GPU, as a driver might: for tests of recovery.
    #[wasm_bindgen(js_name = simulateLoss)]
    pub fn simulate_loss(&self) {
        self.0.simulate_loss();
    }
}
