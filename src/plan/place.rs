//! The pass *place*: on which side a graph runs.

use super::{Plan, Target, plan};
use crate::error::PlanError;
use crate::graph::Graph;

/// A plan, and what the side that was not chosen would have taken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub plan: Plan,
    /// Predicted seconds on the other side, where both could run the graph.
    pub other_seconds: Option<f64>,
}

/// Plans `graph` for each of `targets`, at least one, and takes the plan with the least predicted time.
/// A target that cannot hold the graph is passed over if another can.
pub(crate) fn place<'a>(
    graph: &Graph,
    targets: impl IntoIterator<Item = &'a Target>,
) -> Result<Placed, PlanError> {
    let mut best: Option<Placed> = None;
    let mut failed = None;
    for target in targets {
        let plan = match plan(graph, target) {
            Ok(plan) => plan,
            Err(error) => {
                failed.get_or_insert(error);
                continue;
            }
        };
        best = Some(match best {
            Some(best) if best.plan.seconds <= plan.seconds => {
                Placed { other_seconds: Some(plan.seconds), ..best }
            }
            Some(best) => Placed { plan, other_seconds: Some(best.plan.seconds) },
            None => Placed { plan, other_seconds: None },
        });
    }
    best.ok_or_else(|| failed.unwrap_or(PlanError::Empty))
}
