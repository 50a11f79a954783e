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
//! [`Result`](crate::Result) and [`Error`](crate::Error) are not among them, since they would hide those of `std` or of
//! another crate, nor are the options of single layers.

pub use crate::base::dtype::{DType, Element};
pub use crate::base::shape::Shape;
pub use crate::batch::{BufferId, GpuCommandBatch, Input, Outputs, Program, Resident, Tensor};
pub use crate::cost::Placement;
pub use crate::device::Device;
pub use half::f16;
