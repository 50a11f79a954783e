//! A plan with the tapes of its steps.

use std::sync::{Arc, OnceLock};

use super::tape::Tape;
use crate::exec::cpu::forms::epilogue::chain::Chain;
use crate::exec::cpu::forms::matmul::single_call::SingleCall;
use crate::plan::{Plan, Step};

/// Predicted time below which a run is short. Handing a run to another thread and back takes 10 to 30 µs.
const INLINE_SECONDS: f64 = 100e-6;

/// A plan and the tapes of its steps, each of which is compiled when it first runs.
#[derive(Debug)]
pub(crate) struct CpuProgram {
    plan: Arc<Plan>,
    tapes: Vec<Tapes>,
    is_short: bool,
}

/// The place of an expression in the form of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExprHole {
    /// In front of the form. In a product, it is in front of the left operand; in an attention, in front of the
    /// queries.
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

/// Facts that the first run of a step works out for all later ones. They depend on types, lengths and views of the
/// operands, and the plan fixes these.
#[derive(Debug, Default)]
pub(super) struct Tapes {
    /// Tapes by [`ExprHole`].
    tapes: [OnceLock<Tape>; 5],
    /// The one call of the kernel that computes a small product.
    single_call: OnceLock<Option<SingleCall>>,
    /// The epilogue as a chain of operations.
    chain: OnceLock<Option<Chain>>,
    /// True if the next step computes the results of this one, and reads them at once.
    joins_next: OnceLock<bool>,
}

impl CpuProgram {
    pub fn new(plan: Arc<Plan>) -> Self {
        let tapes = plan.steps.iter().map(|_| Tapes::default()).collect();
        // The time of a user's function is unknown.
        let calls_user =
            || plan.steps.iter().any(|step| step.form.kernel().custom_kernel().is_some());
        Self { is_short: plan.seconds < INLINE_SECONDS && !calls_user(), plan, tapes }
    }

    /// Returns whether a run is short enough for the thread that awaits it.
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
    /// Returns the tape that the first `compile` for `hole` made.
    pub fn get(&self, hole: ExprHole, compile: impl FnOnce() -> Tape) -> &Tape {
        self.tapes[hole as usize].get_or_init(compile)
    }

    /// Returns the result of the first `find`.
    pub fn single_call(&self, find: impl FnOnce() -> Option<SingleCall>) -> Option<&SingleCall> {
        self.single_call.get_or_init(find).as_ref()
    }

    /// Returns the result of the first `find`: whether the next step computes the results of this one.
    pub fn joins_next(&self, find: impl FnOnce() -> bool) -> bool {
        *self.joins_next.get_or_init(find)
    }

    /// Returns the result of the first `find`.
    pub fn chain(&self, find: impl FnOnce() -> Option<Chain>) -> Option<&Chain> {
        self.chain.get_or_init(find).as_ref()
    }
}
