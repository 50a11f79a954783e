//! From WGSL to pipelines.
//!
//! [`compiler`] makes the [`pipelines`] that are missing, each once, with the driver's blobs [on disk](disk). [`kernels`] are
//! the pipelines and parameters of one plan. `custom` checks kernels that users wrote; in a browser `browser_checks` leaves
//! that to WebGPU.

#[cfg(target_arch = "wasm32")]
mod browser_checks;
mod compiler;
#[cfg(not(target_arch = "wasm32"))]
mod custom;
mod disk;
mod kernels;
mod pipeline_cache;

#[cfg(target_arch = "wasm32")]
use browser_checks as custom;
pub(crate) use compiler::PipelineCompiler;
pub(crate) use custom::check as check_custom;
pub(crate) use kernels::{Kernels, has_room_for_params};
pub(crate) use pipeline_cache::Pipeline;
