//! Predicted times: the speed of a device, and the work of a step.

mod curve;
mod learning;
mod limits;
mod profile;
mod route;
mod rules;
mod tile;
mod work;

pub use curve::Curve;
pub use learning::Learned;
pub(crate) use learning::{MOST_TRIALS, Ran, Seen, Trial, Tried};
pub(crate) use limits::{Limits, MatrixUnits, Subgroups};
pub use profile::{DeviceProfile, SideProfile};
pub(crate) use profile::{REFERENCE_BANDWIDTH, REFERENCE_DISPATCH};
pub(crate) use route::{Residence, Route};
pub use rules::{Placement, selector};
pub use tile::{TileKind, TileRate};
pub(crate) use work::{Prediction, WINDOW_FLOPS, Work};

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
    /// The time of a kernel: what it moves or what it computes, whichever takes longer.
    pub fn seconds(&self, bytes: f64, flops: f64) -> f64 {
        (bytes / self.bandwidth).max(flops / self.flops)
    }
}
