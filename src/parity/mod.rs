//! Every operation, and random graphs of them, on every device against [`interpret`].

mod compare;
mod graphs;
mod interpret;
mod ops;
mod rows;
mod sample;
#[cfg(feature = "gpu")]
mod sides;
#[cfg(feature = "gpu")]
mod trials;

use std::sync::OnceLock;

use crate::Device;
use crate::base::test_device::found;

/// The devices of this machine: the host's cores, and a GPU. In CI a missing GPU is a failure.
fn devices() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let mut devices = vec![Device::cpu()];
        if cfg!(feature = "gpu") {
            devices.extend(found(pollster::block_on(Device::gpu())));
        }
        devices
    })
}
