//! All errors: one enum a subject, all wrapped by [`enum@Error`]. Every message names the place, the fault and the
//! remedy.

mod data;
mod device;
mod fitting;
mod mistake;
mod plan;
mod record;
mod rows;
mod run;
mod tensor_names;
mod wording;

use std::fmt;

use thiserror::Error;

pub use data::{DataError, Origin, ReadError};
pub use device::DeviceError;
pub use mistake::MistakeKind;
pub use plan::PlanError;
pub use record::{Mistake, Mistakes};
pub use rows::RowsError;
pub use run::{Fault, FaultKind, Lookup, RunError};
#[cfg(feature = "safetensors")]
pub(crate) use wording::first_of;
pub(crate) use wording::quoted;

/// The result of a fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that a call can report. `Debug` prints the message too, so that `main` may return it.
///
/// # Statuses of a service
/// For a run of a program that was compiled at the start, with data of a request:
///
/// | error | status of HTTP | reason |
/// |---|---|---|
/// | [`Data`](Self::Data), [`Rows`](Self::Rows), [`Fault`](Self::Fault) | 400 Bad Request | the data do not fit; the message names the input or the element |
/// | [`RunError::OverBudget`] | 413 Content Too Large | the run needs more memory than the budget; fewer rows may fit |
/// | [`RunError::Deadline`], [`RunError::Cancelled`] | 503 Service Unavailable | the service is busy, or ends; the request may be repeated |
/// | [`DeviceError::Panicked`], [`DeviceError::Kernel`] | 500 Internal Server Error | a kernel of the service's own panicked, or the device refused it |
/// | other [`Device`](Self::Device) errors | 503 Service Unavailable | the GPU or memory failed; later requests may succeed, as [`Recovery`](crate::Recovery) says |
/// | all others | 500 Internal Server Error | the service recorded or read something wrong |
///
/// ```
/// use onetrip::{DeviceError, Error, RunError};
///
/// fn status(error: &Error) -> u16 {
///     match error {
///         Error::Device(DeviceError::Panicked { .. } | DeviceError::Kernel { .. }) => 500,
///         Error::Data(_) | Error::Rows(_) | Error::Fault(_) => 400,
///         Error::Run(RunError::OverBudget { .. }) => 413,
///         Error::Run(RunError::Deadline { .. } | RunError::Cancelled) | Error::Device(_) => 503,
///         _ => 500,
///     }
/// }
///
/// assert_eq!(status(&RunError::Cancelled.into()), 503);
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
    /// A run was refused or stopped: no room in the budget, a missed deadline, a cancellation, or a panic of a function that
    /// the caller gave it.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The requested result is not there.
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
