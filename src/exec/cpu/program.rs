//! A plan, and the facts that later runs of its steps find.

use std::sync::Arc;

use super::step_cache::StepCache;
use super::tape::SharedTapes;
use crate::plan::{Plan, Step};

/// Predicted time below which a run is short. Handing a run to another thread and back takes 10 to 30 µs.
const INLINE_SECONDS: f64 = 100e-6;

/// A plan and the caches of its steps, each of which is filled when its step first runs.
#[derive(Debug)]
pub(crate) struct CpuProgram {
    plan: Arc<Plan>,
    caches: Vec<StepCache>,
    tapes: SharedTapes,
    is_short: bool,
}

impl CpuProgram {
    pub fn new(plan: Arc<Plan>) -> Self {
        let caches = plan.steps.iter().map(|_| StepCache::default()).collect();
        // The time of a user's function is unknown.
        let calls_user =
            || plan.steps.iter().any(|step| step.form.kernel().custom_kernel().is_some());
        Self {
            is_short: plan.seconds < INLINE_SECONDS && !calls_user(),
            plan,
            caches,
            tapes: SharedTapes::default(),
        }
    }

    /// Returns whether a run is short enough for the thread that awaits it.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The tapes of all steps.
    pub(super) fn tapes(&self) -> &SharedTapes {
        &self.tapes
    }

    /// The steps in the order in which they run, each with its cache.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&Step, &StepCache)> {
        self.plan.steps.iter().zip(&self.caches)
    }
}
