//! The placement of a graph: the rule that chooses its side. The route of a run, and the residence of the data that it
//! reads.

use std::fmt;

use smallvec::SmallVec;

use super::selector::BackendSelector;
use crate::base::backend::Backend;

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
    /// On the GPU if any value of the graph has so many elements.
    Threshold(usize),
    /// A choice by the transfers and flops of the whole graph, as [`BackendSelector::select_backend`] weighs them.
    FiveTimes(BackendSelector),
    /// On the GPU if [`BackendSelector::select_with_moe`] says so for any kernel, by its complexity and its
    /// largest operand or result.
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

/// The side or sides that run a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Route {
    Cpu,
    Gpu,
    /// Split over both sides.
    Both,
}

impl From<Backend> for Route {
    fn from(side: Backend) -> Self {
        match side {
            Backend::Cpu => Self::Cpu,
            Backend::Gpu => Self::Gpu,
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Both => "both",
        })
    }
}

/// The routes that runs of a graph may take, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Routes {
    /// The usual route, which a plan was made for.
    pub taken: Route,
    /// Routes that are worth a trial beside it, the faster first.
    pub others: SmallVec<[Route; 2]>,
}

impl Routes {
    /// The taken route, then the others.
    pub fn all(&self) -> impl Iterator<Item = Route> + Clone {
        std::iter::once(self.taken).chain(self.others.iter().copied())
    }
}

impl From<Route> for Routes {
    /// One route, with no other to try.
    fn from(taken: Route) -> Self {
        Self { taken, others: SmallVec::new() }
    }
}

/// The side or sides of a resident's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Residence {
    Host,
    /// On the GPU alone. A run on the host brings a copy, which stays.
    Gpu,
    /// On the GPU alone, in a buffer that the caller may write to, so that no copy on the host stays valid.
    Shared,
    Both,
}

impl Residence {
    /// True if the host has no copy of the data.
    pub fn is_far(self) -> bool {
        matches!(self, Self::Gpu | Self::Shared)
    }
}
