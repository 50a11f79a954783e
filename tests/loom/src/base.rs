//! The crate's `base`, with loom's locks.

#[path = "../../../src/base/clock.rs"]
pub mod clock;
#[path = "../../../src/base/dtype.rs"]
pub mod dtype;
#[path = "../../../src/base/process.rs"]
pub mod process;
#[path = "sync.rs"]
pub mod sync;
#[path = "../../../src/base/units.rs"]
pub mod units;
