//! The search for the cheapest assignment that takes one trip.
//!
//! A cut cannot say that no step on the host may stand between two on the GPU. Where a cut breaks that rule, the search
//! branches, and each branch is a cut again. Either the step in between goes to the GPU, or all steps on the GPU before
//! it go to the host, or all after it. A branch that costs more than the best assignment found ends there.

use super::{Assignment, FlowOrigin, Problem};
use crate::cost::Backend;

/// Cuts that one search may make, and steps of all its cuts together: planning must not take longer than it may save.
/// Beyond that the best assignment found counts.
const MOST_CUTS: usize = 64;
const MOST_STEPS_CUT: usize = 1024;

/// The side of each step that has been decided.
pub(super) type Fixed = Vec<Option<Backend>>;

/// Steps, by whether they belong to the set.
type Set = Vec<bool>;

impl Problem {
    /// The cheapest assignment that was found; the cheapest there is, unless the search was cut short.
    pub fn solve(&self) -> Assignment {
        let all = |side| vec![side; self.steps.len()];
        let mut best = all(Backend::Cpu);
        let mut least = self.cost(&best).unwrap_or(f64::INFINITY);
        let mut consider = |assignment: Assignment| {
            let cost = self.cost(&assignment).unwrap_or(f64::INFINITY);
            if cost < least {
                (best, least) = (assignment, cost);
            }
            least
        };
        consider(all(Backend::Gpu));
        let mut open = vec![vec![None; self.steps.len()]];
        let mut cuts = (MOST_STEPS_CUT / self.steps.len().max(1)).clamp(1, MOST_CUTS);
        while let Some(fixed) = open.pop() {
            if cuts == 0 {
                break;
            }
            cuts -= 1;
            let assignment = self.cut(&fixed);
            let Some(step) = self.between(&assignment).next() else {
                consider(assignment);
                continue;
            };
            let bound = self.cost_of_trips(&assignment);
            let least = consider(self.filled(assignment));
            if bound >= least {
                continue;
            }
            open.extend(self.branches(&fixed, step));
        }
        best
    }

    /// The decisions that are open if `step` stands on the host between two on the GPU.
    fn branches(&self, fixed: &Fixed, step: usize) -> impl Iterator<Item = Fixed> + use<> {
        let only = (0..self.steps.len()).map(|at| at == step).collect();
        let branches = [
            self.up_to(step).and_then(|steps| decided(fixed, &steps, Backend::Cpu)),
            decided(fixed, &self.starting_at(step), Backend::Cpu),
            decided(fixed, &only, Backend::Gpu),
        ];
        branches.into_iter().flatten()
    }

    /// `step` and those that it waits for; `None` if one of them reads data that lies on the GPU alone.
    fn up_to(&self, step: usize) -> Option<Set> {
        let mut reached = vec![false; self.steps.len()];
        reached[step] = true;
        // Values are in the order of their makers.
        for value in self.values.iter().rev() {
            if value.readers.iter().any(|&reader| reached[reader]) {
                match value.from {
                    FlowOrigin::Step(maker) => reached[maker] = true,
                    FlowOrigin::Gpu => return None,
                    FlowOrigin::Host | FlowOrigin::Both => {}
                }
            }
        }
        Some(reached)
    }

    /// `step` and those that wait for it.
    fn starting_at(&self, step: usize) -> Set {
        let mut reached = vec![false; self.steps.len()];
        reached[step] = true;
        for value in &self.values {
            if matches!(value.from, FlowOrigin::Step(maker) if reached[maker]) {
                value.readers.iter().for_each(|&reader| reached[reader] = true);
            }
        }
        reached
    }

    /// The assignment with every step that stands between two on the GPU moved there: after that none does, since a
    /// step between two of these stood between two before.
    fn filled(&self, mut sides: Assignment) -> Assignment {
        let between: Vec<usize> = self.between(&sides).collect();
        between.into_iter().for_each(|step| sides[step] = Backend::Gpu);
        sides
    }
}

/// `fixed` with those of `steps` on `side`; `None` if one of them is fixed on the other.
fn decided(fixed: &Fixed, steps: &Set, side: Backend) -> Option<Fixed> {
    let decide = |(&fixed, &is_in): (&Option<Backend>, &bool)| match fixed {
        Some(fixed) if is_in && fixed != side => None,
        fixed => Some(if is_in { Some(side) } else { fixed }),
    };
    fixed.iter().zip(steps).map(decide).collect()
}
