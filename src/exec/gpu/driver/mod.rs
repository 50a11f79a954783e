//! The layer that owns the wgpu device and queue, and every quirk of drivers.

pub(crate) mod adapter;
pub(crate) mod device_cache;
pub(crate) mod driver_lock;
pub(crate) mod exit_guard;
pub(crate) mod health;
pub(crate) mod health_registry;
#[cfg(target_os = "linux")]
pub(crate) mod pin_libraries;
pub(crate) mod reaper;
pub(crate) mod warm_up;
