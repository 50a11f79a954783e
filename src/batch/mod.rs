//! What the user holds: the batch that records, its tensors and ids, programs and residents.
//!
//! The first modules are in the order of the documentation of [`GpuCommandBatch`]: make one, bring data, run, read.

mod command_batch;

mod upload;

mod bind;

mod state;

mod run;

mod read;

mod program;

#[cfg(feature = "ndarray")]
mod arrays;
mod blocking;
mod id;
mod ids;
mod input;
mod operand;
mod own;
mod profile;
mod recording;
mod resident;
#[cfg(feature = "gpu")]
mod sharing;
mod tensor;
mod waiting;
#[cfg(feature = "safetensors")]
mod weights;

pub use command_batch::GpuCommandBatch;
pub use id::BufferId;
pub use input::Input;
pub use operand::{Operand, Values};
pub use own::{CpuInputs, Wgsl};
pub use profile::{KernelKind, KernelProfile, Profile, StageProfile};
pub use program::{OutputKey, Outputs, Program};
pub use read::ReadView;
pub(crate) use recording::{Made, Outcome};
pub use resident::Resident;
#[cfg(feature = "gpu")]
pub use sharing::WgpuBuffer;
pub use tensor::Tensor;
#[cfg(feature = "safetensors")]
pub use weights::{TensorType, Weights};

pub use crate::session::RunStats;
