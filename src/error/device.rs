//! Devices that could not be opened, or failed.

use thiserror::Error;

use super::data::Origin;
use crate::base::backend::Backend;

/// The reason why a device could not be opened, or failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No adapter fits.
    #[error("no GPU adapter {wanted}; found: {found}. {hint}")]
    NoAdapter {
        /// The request.
        wanted: String,
        /// The adapters that are there.
        found: String,
        /// The cure.
        hint: &'static str,
    },
    /// Built without GPU support.
    #[error("this build has no GPU support; enable the feature `gpu`, or use `Device::cpu()`")]
    NoGpuSupport,
    /// The device has no GPU, and a method of GPUs was called.
    #[error("the device has no GPU; open it with `Device::gpu()` or `Device::auto()`")]
    NoGpu,
    /// A placement of all batches on the side that the device would not use.
    #[error(
        "the device is to be opened on the {opened} alone, and its builder places batches on the {placed}; \
         open it with `{placed}()`, or choose another placement"
    )]
    OtherSide {
        /// The side that the device would use.
        opened: Backend,
        /// The side of the placement.
        placed: Backend,
    },
    /// A memory budget of no bytes, within which nothing runs.
    #[error(
        "a memory budget of 0 bytes lets nothing run; give `memory_budget` more, or leave it out for no limit"
    )]
    NoBudget,
    /// A device of the caller's own that allows too little.
    #[error(
        "the wgpu device has {limit} {found}, and at least {needed} is needed; open it with `required_limits: adapter.limits()`"
    )]
    Lacks {
        /// The limit, as wgpu calls it.
        limit: &'static str,
        /// The value of the device.
        found: u64,
        /// The value that is needed.
        needed: u64,
    },
    /// An environment variable with a value that is not understood.
    #[error("{variable}={value} is not understood; use {expected}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The values that it may have.
        expected: &'static str,
    },
    /// A profile or selector with a number that is no time or rate.
    #[error("{what}: must be a positive number, and sizes must ascend")]
    Profile {
        /// The figure.
        what: String,
    },
    /// The adapter refused to open a device.
    #[error(
        "adapter {adapter} gave no device: {reason}; update its driver, or use `Device::cpu()`"
    )]
    Open {
        /// The adapter's name.
        adapter: String,
        /// The message of the adapter.
        reason: String,
    },
    /// The process is ending: no GPU is called any more, and trying again is of no use.
    #[error("the process is ending, and no GPU is called any more")]
    Ending,
    /// The process was forked from one with devices, and has none of the threads that runs are handed over to.
    #[error(
        "this process was forked from one that had opened a device, and has none of its threads; \
         run in the parent, or start the child with `exec`"
    )]
    Forked,
    /// The device is lost.
    #[error(
        "the device is lost ({reason}); open a new one with `Device::gpu()`, go on with `Device::cpu()`, \
         or have `DeviceBuilder::recovery` do so"
    )]
    Lost {
        /// The message of the driver.
        reason: String,
    },
    /// The device is lost, and its adapter gave no other.
    #[error(
        "the device is lost ({reason}) and could not be opened again: {why}; use `Recovery::Cpu`"
    )]
    NotReopened {
        /// The message of the driver when the device was lost.
        reason: String,
        /// The reason why the adapter gave no other.
        why: String,
    },
    /// Data that lay on a lost device alone.
    #[error(
        "{of} of {what} was lost with its device; make it again, or call `keep_host_copy` on it before"
    )]
    ResidentLost {
        /// The resident.
        of: Origin,
        /// Element type and shape.
        what: String,
    },
    /// Memory is exhausted, on the device or on the host.
    #[error("out of memory while {doing}; free residents, split the batch, or use another device")]
    OutOfMemory {
        /// The work that failed.
        doing: String,
    },
    /// A run called a function of the user's own, and the function panicked.
    #[error("{place}: {op}: the function for the CPU panicked: {message}")]
    Panicked {
        /// The place where the operation was recorded.
        place: String,
        /// The operation.
        op: &'static str,
        /// The message of the panic.
        message: String,
    },
    /// A valid kernel of the user's own needs more than the device has, such as more threads in a workgroup.
    #[error("{place}: {op}: the device refused the kernel: {reason}")]
    Kernel {
        /// The place where the operation was recorded.
        place: String,
        /// The operation.
        op: &'static str,
        /// The message.
        reason: String,
    },
    /// The driver or wgpu refused something that the engine made.
    #[error("internal: {doing} was refused: {reason}; please report this")]
    Refused {
        /// The work that failed.
        doing: String,
        /// The message.
        reason: String,
    },
}

impl DeviceError {
    /// The same error; exhausted memory names `origin` too.
    pub(crate) fn of(self, origin: &Origin) -> Self {
        match self {
            Self::OutOfMemory { doing } => {
                Self::OutOfMemory { doing: format!("{doing} for {origin}") }
            }
            error => error,
        }
    }

    /// True if the GPU is lost, so that the device may do something about it and the call may be repeated.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// A plan that breaks a promise to its run.
    pub(crate) fn broken(reason: &str) -> Self {
        Self::Refused { doing: "running a plan".into(), reason: reason.into() }
    }
}
