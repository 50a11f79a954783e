//! The result of the pass *place*.

use std::sync::Arc;

use smallvec::SmallVec;

use super::split::Split;
use crate::base::place::Place;
use crate::cost::{Backend, Prediction, Route, Routes};
use crate::graph::Graph;
use crate::plan::execution_plan::Plan;
use crate::plan::forms::Form;
use crate::plan::step::total;
use crate::plan::target::Target;

/// A graph's plan, and the predicted times of the sides for all of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacedGraph {
    pub pieces: Pieces,
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
pub(crate) enum Pieces<P = Arc<Plan>> {
    /// The whole graph on one side.
    Whole(P),
    /// Some on either.
    Split(Split<P>),
}

impl<P> Pieces<P> {
    /// The same pieces, with what `of` makes of each plan.
    pub fn map<Q>(self, of: impl Fn(P) -> Q) -> Pieces<Q> {
        match self {
            Self::Whole(plan) => Pieces::Whole(of(plan)),
            Self::Split(split) => Pieces::Split(split.map(of)),
        }
    }

    /// The plan of each piece, in an order in which they can run.
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        let (whole, parts) = match self {
            Self::Whole(plan) => (Some(plan), &[][..]),
            Self::Split(split) => (None, &split.parts[..]),
        };
        whole.into_iter().chain(parts.iter().map(|part| &part.plan))
    }
}

impl PlacedGraph {
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
            routes: Route::from(plans[0].backend).into(),
            pieces: Pieces::Whole(Arc::new(plans.swap_remove(0))),
            too_small: None,
        }
    }

    /// The same plans with the places of `graph`: they may have been made for an equal graph that was recorded elsewhere.
    pub fn at_places_of(&self, graph: &Graph) -> Self {
        let pieces = self.pieces.clone().map(|plan| Arc::new(plan.at_places_of(graph)));
        Self { pieces, ..self.clone() }
    }

    /// The place in `graph` of the first kernel of the user's own that was recorded at `place` when the plans were made.
    pub fn place_in(&self, graph: &Graph, place: &str) -> Option<Place> {
        self.pieces.iter().find_map(|plan| {
            let mut kernels = plan.steps.iter().filter(|step| matches!(step.form, Form::Custom(_)));
            let step = kernels.find(|step| step.place.to_string() == place)?;
            plan.place_in(graph, step)
        })
    }

    /// Bytes that a run holds until it is done.
    pub fn held_bytes(&self) -> u64 {
        total(self.pieces.iter().map(|plan| plan.held_bytes))
    }

    /// Device memory that a run holds at once.
    pub fn peak_bytes(&self) -> u64 {
        total(self.pieces.iter().map(|plan| plan.peak_bytes))
    }

    /// Predicted seconds of a run.
    pub fn seconds(&self) -> f64 {
        match &self.pieces {
            Pieces::Whole(plan) => plan.seconds,
            Pieces::Split(split) => split.seconds,
        }
    }

    /// True if another side could have run the graph.
    pub fn was_chosen(&self) -> bool {
        self.sides.len() > 1 || matches!(self.pieces, Pieces::Split(_))
    }
}
