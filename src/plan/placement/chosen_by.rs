//! The reason for the choice of a graph's side: predicted times, runs, the user, or its data.

use std::fmt;

use crate::base::units::seconds;
use crate::cost::{Placement, Route, RouteTimes};

/// The reason for the choice of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ChosenBy {
    /// The planner, by predicted times.
    Times,
    /// Runs of the graph, which was tried on each route.
    Measured(RouteTimes),
    /// The graph is being tried on each route.
    Trial,
    /// The batch or the device.
    Asked(Placement),
    /// Data that lies on the GPU alone.
    Data,
    /// A kernel of the user's own that no function for the CPU stands beside.
    Kernel,
}

impl fmt::Display for ChosenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times => f.write_str("by predicted times"),
            Self::Measured(_) => f.write_str("by times of its runs"),
            Self::Trial => f.write_str("by a trial, since predictions are close"),
            Self::Asked(placement) => write!(f, "as asked ({placement})"),
            Self::Data => f.write_str("where its data lies"),
            Self::Kernel => f.write_str("where its kernel can run"),
        }
    }
}

impl ChosenBy {
    /// The reason for the side of a step, in a few words.
    pub fn reason(&self) -> String {
        let words = match self {
            Self::Times => "predicted to be as fast here, or faster",
            Self::Measured(seen) => {
                let time = |(route, nanos): (Route, u64)| {
                    format!("{route} {}", seconds(nanos as f64 * 1e-9))
                };
                return format!(
                    "measured: {}",
                    seen.times().map(time).collect::<Vec<_>>().join(", ")
                );
            }
            Self::Trial => "on trial",
            Self::Asked(Placement::Cpu | Placement::Gpu) => "asked for",
            Self::Asked(_) => "by the rule",
            Self::Data => "its data lies here",
            Self::Kernel => "a kernel for the gpu alone",
        };
        words.to_owned()
    }
}
