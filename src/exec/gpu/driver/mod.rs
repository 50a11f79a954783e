//! The one layer that calls a driver: nothing else in the crate names a wgpu device or queue, but the files that share
//! them with the user.
//!
//! A [`GuardedDevice`] is an [opened device](opened_device) with its queue. A caller chooses a method by the behaviour of
//! the call:
//!
//! | method | the call | kept apart by |
//! |---|---|---|
//! | [`guarded`](GuardedDevice::guarded) | a group of calls, made while the process does not end and the device is sound | [`exit_guard`], [`health`] |
//! | [`scoped`](GuardedDevice::scoped) | an error of any call is the error of all | [`scope`] |
//! | [`scoped_and_checked`](GuardedDevice::scoped_and_checked) | as `scoped`; an earlier error counts too | [`scope`], [`health`] |
//! | [`scoped_work`](GuardedDevice::scoped_work) | as `scoped`, while the driver loads more of itself | [`exit_guard`], [`scope`] |
//! | [`submit_then`](GuardedDevice::submit_then) | hands commands to the queue, and registers callbacks | [`scope`], [`health`] |
//! | [`poll`](opened_device::OpenedDevice::poll) | polls, and never panics | [`exit_guard`], [`health`] |
//! | [`in_turn`], [`in_last_poll`], [`try_short`] | never waits for a long call on an async thread | [`driver_lock`] |
//! | [`release`], [`close`], [`DriverOwned`] | destroys objects | [`reaper`] |
//!
//! [`adapter`] chooses among adapters, and [`open`] opens or adopts a device. [`warm_up`] makes the driver load its
//! compilers. [`device_cache`] keeps a device for its next user. [`health_registry`] knows the health of each device.
//! [`pin_libraries`] keeps libraries loaded at the end of the process. Each file documents the quirk that it works
//! around.

mod adapter;
mod calls;
mod device_cache;
mod driver_lock;
mod exit_guard;
mod guarded_device;
mod handle;
mod health;
mod health_registry;
mod open;
mod opened_device;
#[cfg(target_os = "linux")]
mod pin_libraries;
mod reaper;
mod scope;
mod warm_up;

pub(crate) use adapter::{AdapterChoice, GpuInfo};
pub(crate) use calls::Calls;
#[cfg(test)]
pub(crate) use driver_lock::long;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use driver_lock::try_short;
pub(crate) use driver_lock::{in_last_poll, in_turn};
pub(crate) use exit_guard::DriverWork;
pub(crate) use guarded_device::GuardedDevice;
pub(crate) use handle::WgpuHandle;
pub(crate) use health::{Health, Mapped, unscoped};
pub(crate) use reaper::{DriverOwned, catch_up, close, release};
