//! Devices for the integration tests.

use onetrip::Device;

/// A GPU of any kind, a software adapter too. Where there is none, a test that needs it is skipped
/// with a line that says so; in CI (`CI` is set) there must be one.
pub async fn gpu() -> Option<Device> {
    if !cfg!(feature = "gpu") {
        return None;
    }
    match Device::gpu().await {
        Ok(device) => Some(device),
        Err(error) if std::env::var_os("CI").is_some() => panic!("CI needs an adapter: {error}"),
        Err(error) => {
            println!("skipped on the GPU: {error}");
            None
        }
    }
}

/// The host's cores, and a GPU if there is one.
pub async fn devices() -> Vec<Device> {
    [Device::cpu()].into_iter().chain(gpu().await).collect()
}
