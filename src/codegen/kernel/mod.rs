//! The parts of every generated kernel: parameters, bindings, loads, stores and functions.

mod assemble;
mod bindings;
mod builder;
mod elements;
mod function;
pub(super) mod lanes;
mod params;
mod positions;
pub(super) mod results;
pub(super) mod template;

pub(super) use self::builder::KernelBuilder;
pub(super) use self::function::KernelFunction;
pub(super) use self::params::WORKGROUP;
pub(super) use self::positions::{OuterMaps, passed};

/// Threads of a workgroup, except where a template says otherwise.
pub(super) const THREADS: usize = crate::plan::WORKGROUP_THREADS;
