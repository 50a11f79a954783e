//! The order of the steps of a plan, the memory of their values and the waves of their uploads.

pub(super) mod memory;
pub(super) mod steps;
pub(super) mod waves;
