//! Device memory. [`DeviceMemory`] leases buffers: from the [`pool`], in a few [`sizes`], or new ones.
//!
//! A kernel binds buffers by a group of [`bind_groups`], in one of the [`layouts`]. [`convert`] knows the form of elements on
//! the device, [`buffer`] holds values that stay there, [`mapped`] results that the host reads.

pub(crate) mod bind_groups;
pub(crate) mod buffer;
pub(crate) mod convert;
mod device_memory;
pub(crate) mod layouts;
pub(crate) mod mapped;
pub(crate) mod pool;
mod sizes;

pub(crate) use device_memory::{DeviceMemory, Found};
