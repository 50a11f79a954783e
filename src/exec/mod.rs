//! Execution of a plan on the host's cores or on a GPU.

mod arranged;
pub(crate) mod budget;
pub(crate) mod cpu;
pub(crate) mod deadline;
mod failed_element;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
#[cfg(not(feature = "gpu"))]
#[path = "gpu/absent.rs"]
pub(crate) mod gpu;
mod host;
mod host_pool;
pub(crate) mod janitor;
pub(crate) mod memory;
mod patch;
pub(crate) mod threads;
mod words;

pub(crate) use arranged::{ArrangedCopy, ArrangementKey, ArrangementOrder};
pub(crate) use failed_element::FailedElement;
pub(crate) use host::{Allocator, HostBuffer};
pub(crate) use host_pool::HostPool;
pub(crate) use patch::{Patch, SliceWrite};
pub(crate) use words::Misfit;
