//! Devices for the integration tests.

#[path = "../../src/base/test_device.rs"]
mod test_device;

use onetrip::Device;
use test_device::found;

/// A GPU of any kind, a software adapter too. Where there is none, a test that needs it is skipped
/// with a line that says so; in CI (`CI` is set) there must be one.
pub async fn gpu() -> Option<Device> {
    if !cfg!(feature = "gpu") {
        return None;
    }
    found(Device::gpu().await)
}

/// The host's cores, and a GPU if there is one.
pub async fn devices() -> Vec<Device> {
    [Device::cpu()].into_iter().chain(gpu().await).collect()
}
