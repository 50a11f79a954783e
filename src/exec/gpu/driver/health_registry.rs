//! The health of each device, one for all of its users.
//!
//! Quirk of wgpu 30: polling a lost device frees memory that is mapped, below results that are being read. Two users may
//! adopt one device, and one of them may poll it after the loss. So both must know of all readers. wgpu numbers the
//! devices of each instance anew, so a device is known by its address. Tests: `tests/read_after_loss.rs`,
//! `exec/gpu/tests/losses.rs`.

use std::sync::{Arc, Weak};

use super::health::Health;
use crate::base::sync::Mutex;

/// The health of each device, by the [`address`] of the device.
static KNOWN: Mutex<Vec<(usize, Weak<Health>)>> = Mutex::new(Vec::new());

/// The known health of a device that `may_be_known`, or a new one. A device that was just opened is not known.
pub(super) fn health(device: &wgpu::Device, may_be_known: bool) -> Arc<Health> {
    let Some(address) = address(device) else { return Arc::default() };
    let mut healths = KNOWN.lock();
    // A device whose health nobody holds is closed, or has neither users nor results that are read.
    healths
        .retain(|(known, health)| health.strong_count() > 0 && (may_be_known || *known != address));
    let known = healths.iter().find(|&&(known, _)| known == address);
    known.and_then(|(_, health)| health.upgrade()).unwrap_or_else(|| {
        let health = Arc::default();
        healths.push((address, Arc::downgrade(&health)));
        health
    })
}

/// The address of the device in the backend, which no other device of the process has: wgpu numbers the devices of each
/// instance anew.
#[cfg(not(target_arch = "wasm32"))]
fn address(device: &wgpu::Device) -> Option<usize> {
    macro_rules! address {
        ($backend:ident) => {
            // SAFETY: the lent object is not used; only its address is taken.
            let found = unsafe { device.as_hal::<wgpu::hal::api::$backend>() };
            if let Some(found) = found {
                return Some(std::ptr::from_ref(&*found).addr());
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

/// A browser has one thread, on which no poll comes between a loss and a reader.
#[cfg(target_arch = "wasm32")]
fn address(_: &wgpu::Device) -> Option<usize> {
    None
}
