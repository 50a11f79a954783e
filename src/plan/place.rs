//! The pass *place*: on which side a graph runs.

use super::step::{Form, Step};
use super::{Plan, Target, plan};
use crate::cost::selector::{self, BackendSelector, OpComplexity};
use crate::cost::{Backend, Placement};
use crate::error::PlanError;
use crate::graph::Graph;

/// A plan, and what the side that was not chosen would have taken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub plan: Plan,
    /// Predicted seconds on the other side, where both could run the graph.
    pub other_seconds: Option<f64>,
}

/// Plans `graph` for the one of `targets`, at least one, that `placement` chooses. A target that cannot hold the graph
/// is passed over if another can and the placement leaves the choice.
pub(crate) fn place<'a>(
    graph: &Graph,
    targets: impl IntoIterator<Item = &'a Target> + Clone,
    placement: &Placement,
) -> Result<Placed, PlanError> {
    let side = match placement {
        Placement::Auto => return fastest(graph, targets),
        Placement::Cpu => Backend::Cpu,
        Placement::Gpu => Backend::Gpu,
        Placement::Threshold(_) | Placement::FiveTimes(_) | Placement::Complexity => {
            let mut sides = targets.clone().into_iter();
            let (Some(first), Some(_)) = (sides.next(), sides.next()) else {
                return fastest(graph, targets);
            };
            // The rules look at sizes, which are the same on both sides.
            ruled(&plan(graph, first)?, first, placement)
        }
    };
    let Some(target) = targets.into_iter().find(|target| target.backend == side) else {
        return Err(PlanError::NoSuchSide { side: side.to_string() });
    };
    Ok(Placed { plan: plan(graph, target)?, other_seconds: None })
}

/// The plan with the least predicted time.
fn fastest<'a>(
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

/// What a rule says of a graph, of which `plan` is a plan for `target`.
fn ruled(plan: &Plan, target: &Target, placement: &Placement) -> Backend {
    let elements = |value: &super::Value| value.shape.elements();
    let on_gpu = match placement {
        Placement::Threshold(least) => plan.values.iter().any(|value| elements(value) >= *least),
        Placement::FiveTimes(selector) => {
            let is_input = |value: &&super::Value| {
                matches!(value.home, super::Home::Upload { .. } | super::Home::Resident(_))
            };
            let inputs = plan.values.iter().filter(is_input);
            let bytes =
                inputs.map(|value| value.bytes(&target.limits)).fold(0, u64::saturating_add);
            let bytes = usize::try_from(bytes.saturating_add(plan.bytes_down));
            let flops = plan.steps.iter().map(|step| step.cost.flops);
            let flops = flops.fold(0, u64::saturating_add);
            selector.select_backend(bytes.unwrap_or(usize::MAX), flops) == selector::Backend::Gpu
        }
        Placement::Complexity => plan.steps.iter().any(|step| {
            let values = step.reads().into_iter().chain(step.outputs.iter().map(|o| o.value));
            let largest = values.map(|id| elements(&plan.values[id.index()])).max();
            let choice =
                BackendSelector::new().select_with_moe(complexity(step), largest.unwrap_or(0));
            choice == selector::Backend::Gpu
        }),
        Placement::Auto | Placement::Cpu => false,
        Placement::Gpu => true,
    };
    if on_gpu { Backend::Gpu } else { Backend::Cpu }
}

fn complexity(step: &Step) -> OpComplexity {
    match &step.form {
        Form::Map { .. } => OpComplexity::Low,
        Form::Reduce { .. } | Form::Row { .. } | Form::Scan { .. } | Form::Sort { .. } => {
            OpComplexity::Medium
        }
        Form::MatMul { .. } => OpComplexity::High,
    }
}
