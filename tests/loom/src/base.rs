//! The crate's `base`, with loom's locks.

#[path = "../../../src/base/dtype.rs"]
pub mod dtype;
#[path = "sync.rs"]
pub mod sync;
#[path = "../../../src/base/units.rs"]
pub mod units;
