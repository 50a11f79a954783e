//! Every operation, and random graphs of them, on every device against [`interpret`].

mod attention;
mod compare;
mod elementwise;
mod graphs;
mod indexing;
mod interpret;
#[cfg(feature = "gpu")]
mod learning;
mod matmul;
mod movement;
mod random;
mod reduce;
mod row;
mod sample;
mod scan;
#[cfg(feature = "gpu")]
mod sides;
mod sort;

use std::sync::OnceLock;

use crate::Device;

/// The devices of this machine: the host's cores, and a GPU. In CI a missing GPU is a failure.
fn devices() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let mut devices = vec![Device::cpu()];
        match pollster::block_on(Device::gpu()) {
            Ok(gpu) => devices.push(gpu),
            Err(crate::Error::Device(crate::DeviceError::NoGpuSupport)) => {}
            Err(error) if std::env::var_os("CI").is_some() => {
                panic!("no GPU adapter in CI: {error}")
            }
            Err(error) => println!("without a GPU: {error}"),
        }
        devices
    })
}
