//! The placement of a graph: the rule that chooses its side.

use std::fmt;

use super::selector::BackendSelector;

/// The choice of the side that runs a graph: for all graphs of a device by
/// [`DeviceBuilder::placement`](crate::DeviceBuilder::placement), of one by
/// [`GpuCommandBatch::set_placement`](crate::GpuCommandBatch::set_placement) or
/// [`Program::with_placement`](crate::Program::with_placement).
///
/// If a device has one side only, graphs run there, and a placement on the other is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// On the side that is predicted to finish first, by the device's [profile](crate::Device::profile). Near ties go to the
    /// host: a GPU is taken where the host is predicted to take a quarter longer.
    ///
    /// If the predictions of both sides are within a factor of 2.5 and under 50 ms, a
    /// [learning](crate::DeviceBuilder::without_learning) device measures. Runs alone on the device try both sides, 4
    /// to 12 times each, and the graph stays on the faster one. So the first three dozen runs may go to either side.
    /// One of them may take some milliseconds more to compile kernels, except for a [`Program`](crate::Program), which
    /// compiles them before. Results of the two sides agree within the tolerances of the operations, not bit for bit. A
    /// graph whose runs have all become far slower than they were is tried again, ever more rarely. Nothing is tried
    /// that would move residents, or that [carries state](crate::GpuCommandBatch::update).
    #[default]
    Auto,
    /// On the host's cores.
    Cpu,
    /// On the GPU.
    Gpu,
    /// On the GPU if any value of the graph has at least so many elements.
    Threshold(usize),
    /// On the GPU if arithmetic takes five times as long as transfers, by fixed rates: as
    /// [`BackendSelector::select_backend`] weighs the whole graph. For comparisons with `Auto`.
    FiveTimes(BackendSelector),
    /// On the GPU if [`BackendSelector::select_with_moe`] says so for any kernel, by its complexity and its
    /// largest operand or result. For comparisons with `Auto`.
    Complexity,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu => f.write_str("gpu"),
            Self::Threshold(elements) => write!(f, "threshold of {elements} elements"),
            Self::FiveTimes(_) => f.write_str("arithmetic against transfer"),
            Self::Complexity => f.write_str("complexity"),
        }
    }
}
