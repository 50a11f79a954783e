//! The result of the pass *place*.

use smallvec::{SmallVec, smallvec};

use super::routes::Routes;
use super::split::Split;
use crate::cost::{Backend, Prediction};
use crate::plan::execution_plan::Plan;
use crate::plan::target::Target;

/// A graph's plan, and the predicted times of the sides for all of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub planned: Planned,
    /// The prediction of each side for the whole graph, if the side can hold it and there was a choice; the chosen one
    /// comes first.
    pub sides: SmallVec<[(Backend, Prediction); 2]>,
    /// A side that was passed over since it has no room for the graph.
    pub too_small: Option<Backend>,
    /// The route that was taken, and the routes that are predicted to take about as long, unless trying them costs too
    /// much.
    pub routes: Routes,
}

/// The plan or plans that run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Planned {
    /// The whole graph on one side.
    Whole(Plan),
    /// Some on either.
    Split(Split),
}

impl Placed {
    /// The placement on the side of the first of `plans`, of which there is at least one.
    pub(crate) fn first_of<'a>(
        mut plans: Vec<Plan>,
        targets: impl IntoIterator<Item = &'a Target>,
    ) -> Self {
        let targets: SmallVec<[&Target; 2]> = targets.into_iter().collect();
        let predicted = plans.iter().filter_map(|plan| {
            let target = targets.iter().find(|target| target.backend == plan.backend)?;
            Some((plan.backend, plan.predicted(target)))
        });
        Self {
            sides: predicted.collect(),
            routes: smallvec![plans[0].backend.into()],
            planned: Planned::Whole(plans.swap_remove(0)),
            too_small: None,
        }
    }

    /// Bytes that a run holds until it is done.
    pub fn held_bytes(&self) -> u64 {
        match &self.planned {
            Planned::Whole(plan) => plan.held_bytes,
            Planned::Split(split) => split.held_bytes(),
        }
    }

    /// The plan of each part, in an order in which they can run.
    pub fn plans(&self) -> SmallVec<[&Plan; 4]> {
        match &self.planned {
            Planned::Whole(plan) => smallvec![plan],
            Planned::Split(split) => split.parts.iter().map(|part| &part.plan).collect(),
        }
    }

    /// Predicted seconds of a run.
    pub fn seconds(&self) -> f64 {
        match &self.planned {
            Planned::Whole(plan) => plan.seconds,
            Planned::Split(split) => split.seconds,
        }
    }

    /// True if another side could have run the graph.
    pub fn was_chosen(&self) -> bool {
        self.sides.len() > 1 || matches!(self.planned, Planned::Split(_))
    }
}
