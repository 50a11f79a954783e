//! The order of the steps of a plan, the memory of their values and the waves of their uploads.

pub(super) mod memory;
pub(super) mod order;
pub(super) mod waves;
