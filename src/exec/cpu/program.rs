//! A plan with what is compiled for its steps.

use std::sync::{Arc, OnceLock};

use super::offload::is_short;
use super::tape::Tape;
use crate::exec::cpu::forms::matmul::Plain;
use crate::plan::{Plan, Step};

/// A plan and the tapes of its steps, each of which is compiled when it first runs.
#[derive(Debug)]
pub(crate) struct CpuProgram {
    plan: Arc<Plan>,
    /// By step.
    tapes: Vec<Tapes>,
    is_short: bool,
}

/// Where in the form of a step an expression stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hole {
    /// In front of the form; in a product, of its left operand; in an attention, of the queries.
    Before,
    /// In front of the right operand of a product, or of the keys of an attention.
    Right,
    /// In front of the values of an attention.
    Values,
    /// In front of the mask of an attention.
    Scores,
    /// Behind the form.
    After,
}

/// What the first run of a step finds out for all: how operands are bound, which this depends on, is the same in each.
/// The plan says their types, lengths and views.
#[derive(Debug, Default)]
pub(super) struct Tapes {
    /// By [`Hole`].
    tapes: [OnceLock<Tape>; 5],
    /// What a product comes to that is plain.
    plain: OnceLock<Option<Plain>>,
}

impl CpuProgram {
    pub fn new(plan: Arc<Plan>) -> Self {
        let tapes = plan.steps.iter().map(|_| Tapes::default()).collect();
        Self { is_short: is_short(&plan), plan, tapes }
    }

    /// Whether a run is done where it is awaited.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The steps in the order in which they run, each with its tapes.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&Step, &Tapes)> {
        self.plan.steps.iter().zip(&self.tapes)
    }
}

impl Tapes {
    /// What `compile` made for `hole` when it was first asked for.
    pub fn get(&self, hole: Hole, compile: impl FnOnce() -> Tape) -> &Tape {
        self.tapes[hole as usize].get_or_init(compile)
    }

    /// What `find` found when it was first asked.
    pub fn plain(&self, find: impl FnOnce() -> Option<Plain>) -> Option<&Plain> {
        self.plain.get_or_init(find).as_ref()
    }
}
