//! The pass *split*: a graph in up to four parts, of which one runs on the GPU in one trip.

mod parts;
mod phases;
mod steps;

pub(crate) use self::parts::{PartValue, Phase, SideTargets, Split, SplitPart, Supply};
pub(crate) use self::steps::{PartOf, Steps};
use crate::cost::Residence;
use crate::error::PlanError;
use crate::graph::Graph;
use crate::plan::execution_plan::Plan;

/// Splits `graph`, of which `whole` is the plan for the GPU, if some of it is better done on either side. `residents`
/// says where the data of each lies.
///
/// # Errors
/// [`PlanError::Invalid`]. A part that is too large for its side is no error: there is no split then.
pub(crate) fn split(
    graph: &Graph,
    whole: &Plan,
    sides: SideTargets<'_>,
    residents: &[Residence],
) -> Result<Option<Split>, PlanError> {
    let steps = Steps { whole, sides, residents, part: None };
    let phases = steps.phases(&steps.problem().solve());
    // One side whole is not for this pass.
    let Some(first) = phases.steps.first() else { return Ok(None) };
    if phases.steps.iter().all(|phase| phase == first) && *first != Phase::After {
        return Ok(None);
    }
    phases.split(graph, &steps).transpose()
}
