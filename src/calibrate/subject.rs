//! The device that is measured, and the moments at which its probes may run.

use std::sync::Arc;

use crate::exec::HostPool;
use crate::exec::gpu::Gpu;
use crate::plan::Target;

/// Decides when probes may run; at once, unless a method says otherwise.
pub(crate) trait Pace: Sync {
    /// Waits until nobody else computes on the device. Returns `false` if the probes must stop.
    fn may_go_on(&self) -> bool {
        true
    }

    /// The number of runs that others have begun on the device.
    fn others(&self) -> u64 {
        0
    }
}

/// The pace of a caller that waits for the figures.
pub(crate) struct AtOnce;

impl Pace for AtOnce {}

/// The sides to measure.
pub(crate) struct Subject {
    pub cpu: Target,
    pub pool: Arc<HostPool>,
    pub gpu: Option<(Gpu, Target)>,
}
