//! From WGSL to pipelines.
//!
//! [`compiler`] makes the [`pipelines`] that are missing, each once, with the driver's blobs [on disk](disk). [`kernels`] are
//! the pipelines and parameters of one plan. [`custom`] checks kernels that users wrote.

pub(crate) mod compiler;
pub(crate) mod custom;
mod disk;
pub(crate) mod kernels;
pub(crate) mod pipelines;
