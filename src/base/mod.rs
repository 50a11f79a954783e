//! The foundation of every room: element types, shapes, clocks, locks, small containers. Names nothing of the crate but itself.

pub(crate) mod backend;
pub(crate) mod clock;
#[cfg(any(feature = "gpu", feature = "serde"))]
pub(crate) mod disk_cache;
#[cfg(any(feature = "gpu", feature = "serde"))]
pub(crate) mod disk_writer;
pub(crate) mod dtype;
pub(crate) mod future;
pub(crate) mod lru;
pub(crate) mod process;
pub(crate) mod shape;
#[cfg(feature = "gpu")]
pub(crate) mod single_flight;
pub(crate) mod sync;
#[cfg(test)]
pub(crate) mod test_device;
pub(crate) mod trace;
pub(crate) mod units;
