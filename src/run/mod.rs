//! Running a plan, on the host's cores or on a GPU.

pub(crate) mod cpu;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
mod host;
pub(crate) mod memory;
pub(crate) mod threads;

pub(crate) use host::HostBuffer;
