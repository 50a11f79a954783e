//! The loss of a GPU: the reactions that a caller may choose, and the listeners that are told of it.

use std::fmt;
use std::sync::Arc;

use crate::base::process::caught;
use crate::base::sync::Mutex;

/// The reaction of runs to the loss of their GPU: its driver gave up, it was reset or unplugged.
///
/// A run is repeated as a whole, from the data that its uploads have on the host. A failed run hands out no results and
/// leaves residents as they were, so a repeated run counts once. [Residents](crate::Resident) that lay on the lost GPU
/// alone are lost with it; [`keep_host_copy`](crate::Resident::keep_host_copy) keeps them from that. Those that a
/// loaded program brought are found by [`Program::resident`](crate::Program::resident).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recovery {
    /// Runs fail with [`DeviceError::Lost`](crate::DeviceError::Lost), later runs too.
    #[default]
    Fail,
    /// The same adapter is opened again, and runs are repeated there, each at most three times. If it cannot be
    /// opened, they fail with [`DeviceError::NotReopened`](crate::DeviceError::NotReopened).
    Reopen,
    /// Runs are repeated on the host's cores. All later runs go there too, with any [`Placement`](crate::Placement).
    Cpu,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fail => "runs fail",
            Self::Reopen => "the device opens it again",
            Self::Cpu => "runs go on with the host's cores",
        })
    }
}

/// The loss of a GPU, as [`Device::on_lost`](crate::Device::on_lost) tells it.
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
        write!(f, "the GPU is lost ({}); {}", self.reason, self.recovery)
    }
}

type Listener = Arc<dyn Fn(&DeviceLoss) + Send + Sync>;

#[derive(Default)]
pub(in crate::device) struct Listeners(Mutex<Vec<Listener>>);

impl Listeners {
    pub fn add(&self, listener: Listener) {
        self.0.lock().push(listener);
    }

    /// Calls all listeners, also if one of them panics.
    pub fn call(&self, loss: &DeviceLoss) {
        let listeners = self.0.lock().clone();
        for listener in listeners {
            let _ = caught(|| listener(loss));
        }
    }
}
