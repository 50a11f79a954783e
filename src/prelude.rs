//! The names that most programs use, for `use onetrip::prelude::*;`.
//!
//! ```
//! use onetrip::prelude::*;
//!
//! # pollster::block_on(async {
//! let device = Device::cpu();
//! let batch = GpuCommandBatch::new(&device);
//! let x = batch.upload(&[3.0_f32, -4.0]);
//! let y: Tensor<'_, f32> = 2.0 * x.relu() + 1.0;
//! batch.execute().await?;
//! assert_eq!(batch.read(y).await?, [7.0, 1.0]);
//! # Ok::<_, onetrip::Error>(()) }).unwrap();
//! ```
//!
//! [`Result`](crate::Result) is not among them, since it would hide that of `std`, nor are the options of most layers.

pub use crate::base::dtype::{DType, Element};
pub use crate::base::shape::Shape;
#[cfg(feature = "safetensors")]
pub use crate::batch::Weights;
pub use crate::batch::{
    BufferId, GpuCommandBatch, Input, Outputs, Program, Resident, Tensor, Wgsl,
};
pub use crate::cost::Placement;
pub use crate::device::Device;
pub use crate::error::Error;
pub use crate::methods::{Attention, AttentionMask};
pub use half::f16;
