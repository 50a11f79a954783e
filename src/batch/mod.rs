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
mod attempt;
mod blocking;
mod call;
mod fault;
mod id;
mod input;
mod launch;
mod leg;
mod names;
mod operand;
mod own;
mod parts;
mod profile;
mod recorded;
mod recorder;
mod recording;
mod residence;
mod resident;
#[cfg(feature = "gpu")]
mod sharing;
mod stats;
mod store;
mod tensor;
mod waiting;
#[cfg(feature = "safetensors")]
mod weights;

pub(crate) use call::Call;
pub use command_batch::GpuCommandBatch;
pub use id::BufferId;
pub use input::Input;
pub use operand::{Operand, Values};
pub use own::{CpuInputs, Wgsl};
pub use profile::{KernelProfile, Profile, StageProfile};
pub use program::{OutputKey, Outputs, Program};
pub use read::ReadView;
#[cfg(test)]
pub(crate) use recorded::Recorded;
pub(crate) use recorder::{Refusal, Value};
pub(crate) use recording::{Made, Outcome};
pub use resident::Resident;
#[cfg(feature = "gpu")]
pub use sharing::WgpuBuffer;
pub(crate) use state::Replaced;
pub use stats::RunStats;
pub use tensor::Tensor;
#[cfg(feature = "safetensors")]
pub use weights::{TensorType, Weights};
