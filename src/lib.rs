//! **onetrip** records GPU work as a lazy graph and runs it in one trip: one upload, one submit, one
//! download.
//!
//! A [`GpuCommandBatch`] records operations on typed [`Tensor`]s; nothing runs. On
//! [`execute`](GpuCommandBatch::execute) a planner fuses the operations into few kernels and chooses the host's cores
//! or the GPU by predicted time. It shares buffers between values that never live at once, and runs it all.
//! Intermediate values stay on the device. There are two exceptions: large uploads go in waves, and a graph that is
//! split over both sides hands values from one to the other.
//!
//! ```
//! # pollster::block_on(async {
//! use onetrip::{Device, GpuCommandBatch};
//!
//! let device = Device::auto().await?; // the best GPU, or the CPU where there is none
//! let batch = GpuCommandBatch::new(&device);
//! let x = batch.upload_shaped(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
//! let w = batch.upload_shaped(&[0.5_f32, -1.0, 0.5, 1.0, 0.5, -1.0], [3, 2]);
//! let b = batch.upload(&[0.5_f32, 0.5]);
//! let y = (x.matmul(w) + b).relu();
//!
//! println!("{}", batch.explain()?); // one kernel: matmul+add+relu
//! batch.execute().await?;
//! assert_eq!(batch.read(y).await?, [3.5, 0.0, 8.0, 0.0]);
//! # Ok::<_, onetrip::Error>(()) }).unwrap();
//! ```
//!
//! - Recording never fails: mistakes are kept with their file and line, and reported together.
//! - [`Device::resident`], [`GpuCommandBatch::bind`] and [`GpuCommandBatch::keep`] leave data on the device
//!   from batch to batch.
//! - [`GpuCommandBatch::compile`] makes a [`Program`], which many tasks run at once with data of their own,
//!   [within a time](Program::run_within) if need be, or with [any number of rows](Program::run_rows).
//! - [`upload_with`](GpuCommandBatch::upload_with) and [`read_view`](GpuCommandBatch::read_view) spare copies of
//!   large data.
//! - [`Device::builder`] sets the options of a device: a profile, a [`Placement`], a memory budget, a [`Recovery`] from
//!   lost GPUs, and where compiled kernels and profiles are kept on disk. [`Device::calibrate`] measures both sides.
//! - A [`Tensor`] has operators, and every operation on it as a method. Operations without a tensor operand, or with a
//!   list of them ([`full`](GpuCommandBatch::full), [`concat`](GpuCommandBatch::concat)), are methods of the batch
//!   alone. A [`BufferId`] borrows nothing. [`prelude`] imports the names that most programs use.
//! - [`GpuCommandBatch::wgsl`] takes kernels of your own, [`Newtype`] element types of your own; `Device::from_wgpu`
//!   and `Resident::wgpu_buffer` share a GPU with wgpu code of your own.
//! - [`Device::eval`] is the form of one call per operation.
//! - [`GpuCommandBatch::explain`] lists the kernels to run, their side and the reason, as text or as
//!   [HTML](Explanation::to_html). [`GpuCommandBatch::stats`]
//!   counts the last run, [`Program::profile`] times its parts, and [`Device::metrics`] counts all runs.
//! - [`registry`] lists all operations.
//!
//! # In a browser
//!
//! The crate builds for `wasm32-unknown-unknown`, with WebGPU and without. All runs on one thread there, so a run on the
//! CPU holds up the page; `web/` of the repository has a package for JavaScript. Native alone are: files by path, kernels
//! and profiles on disk, environment variables, the feature `blocking`, the background measurement, and the return of idle
//! memory while nothing runs. A browser tells errors of the GPU late: such an error fails all runs under way.
//!
//! # Features
//!
//! - `gpu` (default): GPUs through wgpu. Without it the crate is a CPU engine.
//! - `serde` (default): profiles and counters as serde's data; [`DeviceProfile`] kept on disk.
//! - `tracing`: spans and events of every stage, under the target `onetrip`.
//! - `ndarray`: views of arrays as inputs, arrays as results.
//! - `safetensors`: weights from a file, mapped into memory, as residents; programs as [files](Program::save).
//! - `blocking`: twins of all async methods of devices, batches, programs and residents that wait on the calling
//!   thread. They are not for tasks of an executor: runs that [update](GpuCommandBatch::update) one resident, or share
//!   a memory budget, wait for each other. A call here that waits for a run of a task that only this thread would poll
//!   never returns.

// The proofs behind `exec::gpu::driver::WgpuHandle` go through all types of wgpu.
#![recursion_limit = "256"]
#![cfg_attr(docsrs, feature(doc_cfg))]

// First, so that the documentation of a device begins with its opening.
mod device;

mod base;
mod batch;
mod calibrate;
mod codegen;
mod cost;
mod error;
mod exec;
mod expr;
mod graph;
mod methods;
mod ops;
#[cfg(test)]
mod parity;
mod picture;
mod plan;
pub mod prelude;
#[cfg(feature = "safetensors")]
mod program_file;
mod record;
mod residents;
mod session;

pub use base::backend::Backend;
pub use base::dtype::{DType, Element, Float, Index, Logical, Newtype, Numeric, Scalar, Signed};
pub use base::future::BoxFuture;
pub use base::place::Place;
pub use base::shape::{MAX_RANK, Shape};
#[cfg(feature = "gpu")]
pub use batch::WgpuBuffer;
pub use batch::{
    AnyId, BufferId, CpuKernel, GpuCommandBatch, Input, InputPair, Inputs, KernelInput, KernelKind,
    KernelProfile, KeyOf, Operand, OptionalOperand, Outputs, PlaceGuard, Profile, Program,
    ReadView, Resident, RowResult, Rows, StageProfile, Tensor, UploadData, ValueKey, Values, Wgsl,
};
#[cfg(feature = "safetensors")]
pub use batch::{CpuKernels, LoadOptions, SaveOptions, TensorType, Weights};
pub use bytemuck;
pub use calibrate::Progress;
pub use cost::{
    Curve, DeviceProfile, Learned, Placement, SideProfile, TileKind, TileRate, selector,
};
pub use device::{
    AdapterKey, Device, DeviceBuilder, DeviceInfo, DeviceLoss, GpuAdapter, Metrics, PoolStats,
    Recovery,
};
pub use error::{
    DataError, DeviceError, Error, Fault, FaultKind, Lookup, Mistake, MistakeKind, Mistakes,
    Origin, PlanError, ReadError, Result, RowsError, RunError,
};
pub use exec::memory::MemoryCounts;
pub use half::f16;
pub use methods::{
    Attention, AttentionMask, Axes, Causal, CellWeights, ClassLoss, Conv, Conv1d, Conv2d,
    ConvTranspose, ConvTranspose1d, ConvTranspose2d, Corners, ImageSize, LossReduction, LstmState,
    OpInfo, Parameter, ParameterKind, Pool, Pool1d, Pool2d, Recurrence, Rotary, Signature,
    SliceRange, registry, signatures,
};
pub use ops::{Precision, SearchSide, SortOrder};
pub use plan::Explanation;
#[cfg(feature = "safetensors")]
pub use program_file::{ProgramInfo, ValueInfo};
pub use session::RunStats;
#[cfg(feature = "gpu")]
pub use wgpu;

/// The README's example, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
