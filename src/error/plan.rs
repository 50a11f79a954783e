//! Sound graphs that cannot be planned.

use thiserror::Error;

use crate::base::backend::Backend;
use crate::base::place::Place;

/// The reason why a sound graph cannot be planned or run.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, Error, GpuCommandBatch, PlanError};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// assert!(matches!(batch.execute().await, Err(Error::Plan(PlanError::Empty { .. }))));
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Nothing was recorded, so there is nothing to run.
    #[error(
        "{made_at}: the batch made here is empty; record an operation or an upload before it is executed, compiled or saved"
    )]
    Empty {
        /// The place where the batch was made.
        made_at: Place,
    },
    /// A tensor is larger than the adapter can bind.
    #[error(
        "{place}: {op} makes {what} of {bytes} bytes, and {adapter} binds at most {limit}; \
         split it, or run on `Device::cpu()`"
    )]
    TooLarge {
        /// The place where it was recorded.
        place: String,
        /// The operation.
        op: &'static str,
        /// Element type and shape.
        what: String,
        /// Its size on the device.
        bytes: u64,
        /// The most that can be bound.
        limit: u64,
        /// The adapter's name.
        adapter: String,
    },
    /// A kernel iterates over more points than a GPU's 32-bit indices count.
    #[error(
        "{place}: {op} iterates over {points} points, and {adapter} counts in 32 bits; \
         split it, or run on `Device::cpu()`"
    )]
    TooManyPoints {
        /// The place where it was recorded.
        place: String,
        /// The operations of the kernel.
        op: String,
        /// The number of points.
        points: u64,
        /// The adapter's name.
        adapter: String,
    },
    /// A pass broke an invariant of the plan.
    #[error("internal: after pass `{pass}`: {what}; please report this")]
    Invalid {
        /// The pass that was run last.
        pass: &'static str,
        /// The broken invariant.
        what: String,
    },
    /// A placement on a side that the device has not, or may not use.
    #[error("the batch is placed on the {side}, which its device does not use; {fix}")]
    NoSuchSide {
        /// The side.
        side: Backend,
        /// The cure.
        fix: String,
    },
    /// A kernel of the user's own has no function for the CPU, and the batch would have to run there.
    #[error(
        "{place}: wgsl: the batch runs on the CPU, and this kernel has no function for it; let the batch run on a GPU, or \
         give one by `Wgsl::on_cpu`, for a program of a file by `LoadOptions::on_cpu`"
    )]
    GpuOnly {
        /// The place where it was recorded.
        place: String,
    },
    /// A resident that is not filled yet.
    #[error("{place}: the resident bound here is empty: execute the batch that keeps it first")]
    EmptyResident {
        /// The place where it was bound.
        place: String,
    },
}

impl PlanError {
    /// True if the graph is sound, and this side too small for it, or not that which a kernel was written for.
    pub(crate) fn leaves_the_other_side(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::TooManyPoints { .. } | Self::GpuOnly { .. })
    }
}
