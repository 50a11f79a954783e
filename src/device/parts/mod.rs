//! The parts of a device. None of them knows the device: its methods, in the files beside this folder, bring them
//! together.

pub(super) mod adapter;
pub(super) mod background;
pub(super) mod builder;
pub(super) mod busy_tracker;
pub(super) mod counters;
pub(super) mod device_gpu;
pub(super) mod info;
pub(super) mod loss;
pub(super) mod plan_cache;
pub(super) mod prepared;
pub(super) mod profile_file;
pub(super) mod profile_store;
pub(super) mod profiles;
pub(super) mod trials;
