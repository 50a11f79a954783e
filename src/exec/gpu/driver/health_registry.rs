//! Which devices there are: each has one health, whoever adopts it. Results of one user would be freed below the reader
//! where another one polls the device that both have lost.

use std::ptr;
use std::sync::{Arc, Weak};

use crate::base::sync::Mutex;
use crate::exec::gpu::driver::health::Health;

/// The health of each device, by its [`address`].
static WATCHED: Mutex<Vec<(usize, Weak<Health>)>> = Mutex::new(Vec::new());

/// The first health of `device`, which was just opened.
pub(crate) fn opened(device: &wgpu::Device) -> Arc<Health> {
    health(device, false)
}

/// The health that `device` has, or its first.
pub(crate) fn adopted(device: &wgpu::Device) -> Arc<Health> {
    health(device, true)
}

/// Who `may_be_known` has the health that is known.
fn health(device: &wgpu::Device, may_be_known: bool) -> Arc<Health> {
    let Some(address) = address(device) else { return Arc::default() };
    let mut watched = WATCHED.lock();
    // Whose health nobody holds is closed, or has no users and no results that are read.
    watched
        .retain(|(known, health)| health.strong_count() > 0 && (may_be_known || *known != address));
    let known = watched.iter().find(|&&(known, _)| known == address);
    known.and_then(|(_, health)| health.upgrade()).unwrap_or_else(|| {
        let health = Arc::default();
        watched.push((address, Arc::downgrade(&health)));
        health
    })
}

/// What tells a device from all others that there are, of any instance: wgpu numbers those of each anew. `None` in a
/// browser.
#[cfg_attr(target_arch = "wasm32", expect(unused_variables, reason = "there is one thread"))]
fn address(device: &wgpu::Device) -> Option<usize> {
    macro_rules! address {
        ($backend:ident) => {
            // SAFETY: nothing is done with what is lent but to look where it lies.
            let found = unsafe { device.as_hal::<wgpu::hal::api::$backend>() };
            if let Some(found) = found {
                return Some(ptr::from_ref(&*found).addr());
            }
        };
    }
    #[cfg(any(windows, target_os = "linux", target_os = "android"))]
    address!(Vulkan);
    #[cfg(windows)]
    address!(Dx12);
    #[cfg(target_vendor = "apple")]
    address!(Metal);
    None
}
