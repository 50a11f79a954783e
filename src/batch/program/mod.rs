//! Programs: batches that are recorded once and run as often as wanted, by many tasks at once.
//!
//! The first module comes first in the documentation of [`Program`].

mod run;

mod compiled;
#[cfg(feature = "safetensors")]
mod file_options;
mod on_zeros;
mod outputs;
mod rows;
mod run_inputs;
mod signature;

pub use self::compiled::Program;
#[cfg(feature = "safetensors")]
pub use self::file_options::{CpuKernels, LoadOptions, SaveOptions};
pub use self::outputs::Outputs;
pub use self::rows::{RowResult, Rows};
