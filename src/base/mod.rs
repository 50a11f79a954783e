//! The foundation of every room: element types, shapes, clocks, locks, small containers. It names no other room.

pub(crate) mod backend;
pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod dtype;
pub(crate) mod future;
pub(crate) mod lru;
pub(crate) mod place;
#[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser has no processes"))]
pub(crate) mod process;
pub(crate) mod shape;
#[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "no thread waits for a pipeline"))]
pub(crate) mod single_flight;
pub(crate) mod sync;
#[cfg(test)]
pub(crate) mod test_device;
pub(crate) mod trace;
pub(crate) mod units;
