//! A graph in parts that hand values to each other.

use std::fmt;
use std::sync::Arc;

use crate::plan::execution_plan::Plan;
use crate::plan::target::Target;

/// A graph in parts that hand values to each other, each with its plan, or with all that runs need of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Split<P = Arc<Plan>> {
    /// In an order in which they can run, at most one of each phase.
    pub parts: Vec<SplitPart<P>>,
    /// The makers of the whole graph's outputs, in their order.
    pub downloads: Vec<PartValue>,
    /// The makers of the values that it keeps.
    pub keeps: Vec<PartValue>,
    /// Predicted seconds of a whole run.
    pub seconds: f64,
}

impl<P> Split<P> {
    /// The same split, with what `of` makes of each plan.
    pub fn map<Q>(self, of: impl Fn(P) -> Q) -> Split<Q> {
        let Self { parts, downloads, keeps, seconds } = self;
        let part = |SplitPart { phase, plan, uploads, residents }| SplitPart {
            phase,
            plan: of(plan),
            uploads,
            residents,
        };
        Split { parts: parts.into_iter().map(part).collect(), downloads, keeps, seconds }
    }
}

/// One part with its plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SplitPart<P = Arc<Plan>> {
    pub phase: Phase,
    pub plan: P,
    /// The sources of the plan's uploads, by position.
    pub uploads: Vec<Supply>,
    /// The whole graph's residents that the plan's are, by position.
    pub residents: Vec<u32>,
}

/// The time of a part in the run. Two that do not wait for each other run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The part on the host, before the GPU.
    Before,
    /// The part on the GPU.
    Gpu,
    /// The part on the host, at the same time as the GPU.
    Beside,
    /// The part on the host, after the others.
    After,
}

impl Phase {
    pub(super) const ALL: [Self; 4] = [Self::Before, Self::Gpu, Self::Beside, Self::After];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before the gpu",
            Self::Gpu => "on the gpu",
            Self::Beside => "beside the gpu",
            Self::After => "after the gpu",
        })
    }
}

/// The source of an upload of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// The whole graph's upload of this position.
    Upload(u32),
    /// A value that another part made.
    Part(PartValue),
}

/// A value that a part makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartValue {
    /// The part, by position in [`Split::parts`].
    pub part: usize,
    /// The value, by position among the downloads or keeps of that part.
    pub at: usize,
}

/// Both sides of a device.
#[derive(Clone, Copy)]
pub(crate) struct SideTargets<'a> {
    pub cpu: &'a Target,
    pub gpu: &'a Target,
}

/// The predicted seconds of a run in these parts.
pub(super) fn seconds(parts: &[SplitPart]) -> f64 {
    let of = |phase: Phase| {
        let found = parts.iter().find(|part| part.phase == phase);
        found.map_or(0.0, |part| part.plan.seconds)
    };
    of(Phase::Before) + of(Phase::Gpu).max(of(Phase::Beside)) + of(Phase::After)
}
