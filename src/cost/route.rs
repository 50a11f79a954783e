//! Places of runs and of data: the route of a graph, and the residence of what it reads.

use crate::base::backend::Backend;

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

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Both => "both",
        })
    }
}

/// The place of a resident's data.
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
    /// Whether the host has no copy of the data.
    pub fn is_far(self) -> bool {
        matches!(self, Self::Gpu | Self::Shared)
    }
}
