//! Recovery from a lost GPU.

use std::fmt;
use std::sync::Arc;

use super::Device;
use crate::base::process::caught;
use crate::base::sync::Mutex;
use crate::error::{DeviceError, Error, Result};

/// The reaction of runs to the loss of their GPU: its driver gave up, it was reset or unplugged.
///
/// A run is repeated as a whole, from the data that its uploads have on the host. A failed run hands out no results and
/// leaves residents as they were, so a repeated run counts once. [Residents](crate::Resident) that lay on the lost GPU
/// alone are lost with it; [`keep_host_copy`](crate::Resident::keep_host_copy) keeps them from that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recovery {
    /// They fail with [`DeviceError::Lost`](crate::DeviceError::Lost), as all runs after them.
    #[default]
    Fail,
    /// The same adapter is opened again, and they are repeated there, each at most three times. Where it cannot be
    /// opened they fail with [`DeviceError::NotReopened`](crate::DeviceError::NotReopened).
    Reopen,
    /// They are repeated on the host's cores. All later runs go there too, with any [`Placement`](crate::Placement).
    Cpu,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fail => "runs fail",
            Self::Reopen => "it is opened again",
            Self::Cpu => "runs go on with the host's cores",
        })
    }
}

/// The loss of a GPU, as [`Device::on_lost`] tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceLoss {
    /// The message of the driver.
    pub reason: String,
    /// The recovery of the device.
    pub recovery: Recovery,
    /// The number of losses so far, this one included.
    pub losses: u64,
}

impl fmt::Display for DeviceLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the GPU is lost ({}): {}", self.reason, self.recovery)
    }
}

type Listener = Arc<dyn Fn(&DeviceLoss) + Send + Sync>;

#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<Listener>>);

impl Listeners {
    /// Calls all listeners, also if one of them panics.
    pub fn call(&self, loss: &DeviceLoss) {
        let listeners = self.0.lock().clone();
        for listener in listeners {
            let _ = caught(|| listener(loss));
        }
    }
}

impl Device {
    /// Calls `listener` once for each loss of the GPU, before the recovery, in the task whose run or transfer found out. It
    /// should be quick, and a panic in it is ignored. The device holds it: a listener that holds a handle of the device
    /// keeps the device open for good.
    pub fn on_lost(&self, listener: impl Fn(&DeviceLoss) + Send + Sync + 'static) {
        if let Some(gpu) = self.device_gpu() {
            gpu.listeners.0.lock().push(Arc::new(listener));
        }
    }

    /// Recovers from `error` if it is a loss, so that the failed work may be repeated.
    ///
    /// # Errors
    /// `error` itself, or the reason why the recovery failed.
    pub(crate) async fn recover(&self, error: Error) -> Result<()> {
        match (self.device_gpu(), &error) {
            (Some(gpu), Error::Device(DeviceError::Lost { .. })) => gpu.recover(error).await,
            _ => Err(error),
        }
    }

    /// Reports `error` to the listeners if it is a loss, and returns it. Transfers, which are not repeated, call it.
    pub(super) fn noticed(&self, error: DeviceError) -> DeviceError {
        if let (Some(gpu), DeviceError::Lost { .. }) = (self.device_gpu(), &error) {
            gpu.report();
        }
        error
    }

    /// Loses the GPU as a failing driver might, to test the reaction of a service. Without a GPU nothing happens. It
    /// waits up to one second for polls in progress. As with any loss, the next user of the GPU finds out, and then the
    /// loss is reported and counted. Runs on the host's cores go on and notice nothing.
    pub fn simulate_loss(&self) {
        if let Some(gpu) = self.device_gpu() {
            gpu.opened().destroy();
        }
    }
}
