//! A plan, and the facts that all of its runs share.

use std::sync::Arc;

use super::forms::product::Kernel;
use super::forms::sliding::fused_product;
use super::like_steps;
use super::step_cache::StepCache;
use crate::exec::{HostPool, threads};
use crate::plan::{Plan, Step};

/// Most bytes of memory that are reserved for the first run.
const MOST_RESERVED: u64 = 256 << 20;
/// Predicted time below which a run is short. Handing a run to another thread and back takes 10 to 30 µs.
const INLINE_SECONDS: f64 = 100e-6;

/// A plan and the caches of its steps, each of which is filled by the first of its steps that runs.
#[derive(Debug)]
pub(crate) struct CpuProgram {
    plan: Arc<Plan>,
    caches: Vec<Arc<StepCache>>,
    /// True for each step whose results the next step computes, and reads at once.
    fused: Vec<bool>,
    is_short: bool,
}

impl CpuProgram {
    /// Prepares all that no run shall wait for, with the threads that help.
    pub fn new(plan: Arc<Plan>) -> Self {
        threads::start();
        // To ask a virtual processor for its instructions takes some 40 µs.
        Kernel::native();
        // The time of a user's function is unknown.
        let calls_user =
            || plan.steps.iter().any(|step| step.form.kernel().custom_kernel().is_some());
        Self {
            caches: like_steps::caches(&plan),
            fused: (0..plan.steps.len()).map(|at| fused_product::is_fused(&plan, at)).collect(),
            is_short: plan.seconds < INLINE_SECONDS && !calls_user(),
            plan,
        }
    }

    /// Lets `pool` have the memory of a run, so that the first run waits for no page of it.
    pub fn reserve(&self, pool: &HostPool) {
        let slots = &self.plan.slots;
        // Many values that no machine can hold have more bytes than a number counts.
        let all = slots.iter().fold(0, |all: u64, &bytes| all.saturating_add(bytes));
        if all <= MOST_RESERVED {
            pool.reserve(slots.iter().filter_map(|bytes| usize::try_from(bytes.div_ceil(4)).ok()));
        }
    }

    /// Returns whether a run is short enough for the thread that awaits it.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The steps in the order in which they run, each with its cache.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&Step, &StepCache)> {
        self.plan.steps.iter().zip(self.caches.iter().map(Arc::as_ref))
    }

    /// True if the step after the one at `at` computes the results of that one, and reads them at once.
    pub(super) fn is_fused(&self, at: usize) -> bool {
        self.fused[at]
    }
}
