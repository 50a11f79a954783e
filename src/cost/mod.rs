//! Predicted times: the speed of a device, and the work of a step.

mod ceilings;
mod curve;
mod learned;
mod limits;
mod placement;
mod profile;
mod route;
pub mod selector;
mod trial;
mod work;

pub(crate) use ceilings::Ceilings;
pub use curve::Curve;
pub use learned::Learned;
pub(crate) use learned::{MOST_TRIALS, Tried};
pub(crate) use limits::{Limits, MatrixUnits, Subgroups};
pub use placement::Placement;
pub use profile::{DeviceProfile, SideProfile, TileKind, TileRate};
pub(crate) use profile::{REFERENCE_BANDWIDTH, REFERENCE_DISPATCH};
pub(crate) use route::{Residence, Route, Routes};
pub(crate) use trial::{RouteTimes, RunOutcome, Trial};
pub(crate) use work::{Prediction, Work};

pub use crate::base::backend::Backend;

/// The rates of one side that fusion decides by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// Seconds of a kernel launch.
    pub dispatch: f64,
    /// Bytes of memory read or written a second.
    pub bandwidth: f64,
    /// Elementwise flops a second.
    pub flops: f64,
}

impl Rates {
    /// The time of a kernel: that of its transfers or of its arithmetic, whichever takes longer.
    pub fn seconds(&self, bytes: f64, flops: f64) -> f64 {
        (bytes / self.bandwidth).max(flops / self.flops)
    }
}
