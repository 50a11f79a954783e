//! The path of a run to the device and back.

pub(crate) mod ahead;
pub(crate) mod coalesce;
pub(crate) mod completion;
pub(crate) mod encode;
pub(crate) mod flight;
pub(crate) mod job;
pub(crate) mod mapped_after;
pub(crate) mod poll;
pub(crate) mod readback;
pub(crate) mod record;
pub(crate) mod resident;
pub(crate) mod stage;
pub(crate) mod stamps;
pub(crate) mod waves;
