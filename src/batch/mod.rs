//! The types that the user holds: the batch that records, its tensors and ids, programs and residents.
//!
//! The first modules are in the order of the documentation of [`GpuCommandBatch`]: make one, bring data, run, read.

/// Calls a macro with the type names and positions of tuples of each length up to eight.
macro_rules! tuples {
    ($each:ident) => {
        $each!(A 0);
        $each!(A 0, B 1);
        $each!(A 0, B 1, C 2);
        $each!(A 0, B 1, C 2, D 3);
        $each!(A 0, B 1, C 2, D 3, E 4);
        $each!(A 0, B 1, C 2, D 3, E 4, F 5);
        $each!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
        $each!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
    };
}

mod command_batch;

mod outputs;

mod upload;

mod resident;

mod run;

mod read;

mod program;

#[cfg(feature = "ndarray")]
mod arrays;
mod blocking;
mod cpu_kernel;
mod input;
mod last_run;
mod profile;
#[cfg(feature = "gpu")]
mod sharing;
mod values;
#[cfg(feature = "safetensors")]
mod weights;
mod wgsl;

pub use command_batch::{GpuCommandBatch, PlaceGuard};
pub use cpu_kernel::CpuKernel;
pub use input::{Input, InputPair, Inputs};
pub use profile::{KernelKind, KernelProfile, Profile, StageProfile};
#[cfg(feature = "safetensors")]
pub use program::{CpuKernels, LoadOptions, SaveOptions};
pub use program::{Outputs, Program, RowResult, Rows};
pub use read::ReadView;
pub use resident::Resident;
#[cfg(feature = "gpu")]
pub use sharing::WgpuBuffer;
pub use upload::UploadData;
pub use values::{AnyId, BufferId, KeyOf, Operand, OptionalOperand, Tensor, ValueKey, Values};
pub(crate) use values::{OperationResult, TensorResult};
#[cfg(feature = "safetensors")]
pub use weights::{TensorType, Weights};
pub use wgsl::{KernelInput, Wgsl};
