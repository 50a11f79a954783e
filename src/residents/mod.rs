//! Data that stays on a device between runs: where it lies, how runs fill it, and in which order they do.

mod change;
mod commit;
mod handle;
mod location;
mod slice_update;
mod storage;
mod update_order;

pub(crate) use commit::{Keep, KeptValues, commit};
pub(crate) use handle::Handle;
#[cfg(feature = "gpu")]
pub(crate) use location::on_device;
pub(crate) use location::{all_on_device, all_on_host, locations};
pub(crate) use slice_update::SliceUpdate;
pub(crate) use storage::Storage;
pub(crate) use update_order::UpdateOrder;
