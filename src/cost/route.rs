//! The routes of a graph's runs, and the residence of the data that they read.

use std::fmt;

use smallvec::SmallVec;

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
