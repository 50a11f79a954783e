//! Running a plan, on the host's cores or on a GPU.

pub(crate) mod budget;
pub(crate) mod cpu;
pub(crate) mod deadline;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
mod host;
pub(crate) mod janitor;
pub(crate) mod memory;
mod patch;
pub(crate) mod threads;

pub(crate) use host::HostBuffer;
pub(crate) use patch::Patch;

/// What sizes from which work is shared out, or memory is large, are divided by where every step is interpreted: so they
/// are reached in time. A power of two.
pub(crate) const SMALLER: usize = if cfg!(miri) { 1 << 9 } else { 1 };
