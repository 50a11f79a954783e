//! All errors: one enum a subject, all wrapped by [`enum@Error`]. Every message names the place, the fault and the
//! remedy.

mod data;
mod device;
mod mistake;
mod plan;
mod record;
mod rows;
mod run;
mod wording;

use std::fmt;

use thiserror::Error;

pub use data::{DataError, Origin, ReadError};
pub use device::DeviceError;
pub use mistake::MistakeKind;
pub use plan::PlanError;
pub use record::{Mistake, Mistakes};
pub use rows::RowsError;
pub use run::{Fault, FaultKind, RunError};

/// The result of a fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that a call can report. `Debug` prints the message too, so that `main` may return it.
///
/// ```
/// use onetrip::{DeviceError, Error, RunError};
///
/// /// The status with which a service answers.
/// fn status(error: &Error) -> u16 {
///     match error {
///         Error::Fault(_) | Error::Data(_) => 400, // data of the caller, such as an index out of range
///         Error::Run(RunError::Deadline { .. }) => 504,
///         Error::Device(DeviceError::Lost { .. }) => 503,
///         _ => 500,
///     }
/// }
///
/// assert_eq!(status(&RunError::Cancelled.into()), 500);
/// ```
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// All mistakes of recording.
    #[error(transparent)]
    Record(#[from] Mistakes),
    /// The graph is sound, but cannot be planned for this device.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The device could not be opened, or failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The run found data that an operation cannot work with.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A run was not made, or not to its end, though nothing failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A result was asked for that is not there.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The rows of a program cannot be cut and joined.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// Data for an upload or a resident does not fit.
    #[error(transparent)]
    Data(#[from] DataError),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
