//! From WGSL to pipelines: compiling, the cache on disk, checks of kernels that users wrote.

pub(crate) mod compiler;
pub(crate) mod custom;
pub(crate) mod disk;
pub(crate) mod kernels;
pub(crate) mod pipelines;
