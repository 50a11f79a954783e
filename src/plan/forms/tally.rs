//! The count of a step's work.

use smallvec::SmallVec;

use crate::base::shape::points;
use crate::cost::Work;
use crate::expr::{Expr, Ref};
use crate::plan::step_parts::StepContext;

/// Adds up the work of a step.
pub(crate) struct Tally<'a> {
    expr: &'a Expr,
    roots: SmallVec<[Ref; 2]>,
    pub work: Work,
}

impl<'a> Tally<'a> {
    pub fn new(context: &StepContext<'a>) -> Self {
        Self { expr: context.expr, roots: context.roots(), work: Work::default() }
    }

    /// Counts expressions that are evaluated so many times.
    pub fn evaluate(&mut self, roots: &[Ref], times: f64) {
        let flops = self.expr.flops(roots);
        let transcendental = self.expr.transcendental_flops(roots);
        self.work.arithmetic += (flops - transcendental) as f64 * times;
        self.work.transcendental += transcendental as f64 * times;
    }

    /// Counts the outputs of so many results.
    pub fn results(&mut self, times: f64) {
        let roots = self.roots.clone();
        self.evaluate(&roots, times);
    }
}

/// The points of a space of these dimensions.
pub(super) fn count(dims: &[usize]) -> f64 {
    points(dims) as f64
}
