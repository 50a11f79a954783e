//! The pass *split*: a graph in up to four parts, of which one runs on the GPU in one trip.

mod orders;
mod stages;
mod steps;

use std::fmt;

pub(crate) use self::steps::{PartOf, Steps};
use crate::cost::Residence;
use crate::error::PlanError;
use crate::graph::Graph;
use crate::plan::step::total;
use crate::plan::{Plan, Target};

/// A graph in parts that hand values to each other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Split {
    /// In an order in which they can run, at most one of each stage.
    pub parts: Vec<SplitPart>,
    /// Where the whole graph's outputs are made, in their order.
    pub downloads: Vec<Made>,
    /// Where what it keeps is made.
    pub keeps: Vec<Made>,
    /// Predicted seconds of a whole run.
    pub seconds: f64,
}

impl Split {
    /// Bytes that a run of all parts holds until it is done.
    pub fn held_bytes(&self) -> u64 {
        total(self.parts.iter().map(|part| part.plan.held_bytes))
    }
}

/// One part with its plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SplitPart {
    pub stage: Stage,
    pub plan: Plan,
    /// What the plan's uploads are, by position.
    pub uploads: Vec<Supply>,
    /// The whole graph's residents that the plan's are, by position.
    pub residents: Vec<u32>,
}

/// When a part runs. Two that do not wait for each other run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// On the host, before the GPU.
    Before,
    /// On the GPU.
    Gpu,
    /// On the host, meanwhile.
    Beside,
    /// On the host, when the others are done.
    After,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Before, Self::Gpu, Self::Beside, Self::After];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before the gpu",
            Self::Gpu => "on the gpu",
            Self::Beside => "beside the gpu",
            Self::After => "after the gpu",
        })
    }
}

/// What an upload of a part brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// The whole graph's upload of this position.
    Upload(u32),
    /// What another part made.
    Made(Made),
}

/// A value that a part makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// By position in [`Split::parts`].
    pub part: usize,
    /// By position among what that part downloads, or keeps.
    pub at: usize,
}

/// Both sides of a device.
#[derive(Clone, Copy)]
pub(crate) struct Sides<'a> {
    pub cpu: &'a Target,
    pub gpu: &'a Target,
}

/// Splits `graph`, of which `whole` is the plan for the GPU, if some of it is better done on either side. `residents`
/// says where the data of each lies.
///
/// # Errors
/// [`PlanError::Invalid`]. A part that is too large for its side is no error: there is no split then.
pub(crate) fn split(
    graph: &Graph,
    whole: &Plan,
    sides: Sides<'_>,
    residents: &[Residence],
) -> Result<Option<Split>, PlanError> {
    let steps = Steps { whole, sides, residents, part: None };
    let stages = steps.stages(&steps.problem().solve());
    // One side whole is not for this pass.
    let Some(first) = stages.steps.first() else { return Ok(None) };
    if stages.steps.iter().all(|stage| stage == first) && *first != Stage::After {
        return Ok(None);
    }
    stages.split(graph, &steps).transpose()
}

/// What a run in these parts takes.
fn seconds(parts: &[SplitPart]) -> f64 {
    let of = |stage: Stage| {
        let found = parts.iter().find(|part| part.stage == stage);
        found.map_or(0.0, |part| part.plan.seconds)
    };
    of(Stage::Before) + of(Stage::Gpu).max(of(Stage::Beside)) + of(Stage::After)
}
