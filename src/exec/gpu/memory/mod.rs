//! Device memory. [`DeviceMemory`] leases buffers: from the [`pool`], in a few sizes, or new ones.
//!
//! A kernel binds buffers by a group of [`bind_groups`], in one of the [`layouts`]. [`convert`] knows the form of
//! elements on the device, [`buffer`] holds values that stay there, and results that the host reads. A [`command_list`]
//! has what a run copies and binds, and [`next_run`] keeps one that is recorded before its run comes.

mod bind_groups;
mod buffer;
mod command_list;
mod convert;
mod device_memory;
mod layouts;
mod next_run;
mod pool;

pub(crate) use bind_groups::BoundBlock;
pub(crate) use buffer::{DeviceBuffer, Readback};
pub(crate) use command_list::{BufferCopy, CommandList};
pub(crate) use convert::DeviceFormat;
pub(crate) use device_memory::{DeviceMemory, IdleLeases};
pub(crate) use layouts::{BindingShape, KernelLayout, Layouts};
pub(crate) use next_run::NextRun;
pub(crate) use pool::{Block, Class, Kind, Lease, leased_bytes};
