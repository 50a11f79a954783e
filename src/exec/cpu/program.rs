//! A plan, and the facts that all of its runs share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::forms::product::Kernel;
use super::forms::sliding::fused_product;
use super::step_cache::StepCache;
use crate::exec::memory::LARGE;
use crate::exec::threads;
use crate::plan::{Plan, Step};

/// Predicted time below which a run is short. Handing a run to another thread and back takes 10 to 30 µs.
const INLINE_SECONDS: f64 = 100e-6;

/// A plan, with a cache for each of its steps.
#[derive(Debug)]
pub(crate) struct CpuProgram {
    plan: Arc<Plan>,
    steps: Vec<ProgramStep>,
    is_short: bool,
    /// True once a caller has begun the runs on zeros.
    has_run_on_zeros: AtomicBool,
}

/// The parts of a program that belong to one step.
#[derive(Debug)]
pub(super) struct ProgramStep {
    /// Filled by the first run.
    pub cache: Arc<StepCache>,
    /// True if the next step computes the results of this one, and reads them at once.
    pub is_fused: bool,
}

impl CpuProgram {
    /// Finds the steps that share a cache and those that are fused, asks the processor for its instructions, and starts the
    /// first helper, so that no run waits for these.
    pub fn new(plan: Arc<Plan>) -> Self {
        threads::start_first_helper();
        // A virtual processor takes some 40 µs to answer.
        Kernel::native();
        // The time of a user's function is unknown.
        let calls_user =
            || plan.steps.iter().any(|step| step.form.kernel().custom_kernel().is_some());
        let kept =
            |(at, cache)| ProgramStep { cache, is_fused: fused_product::is_fused(&plan, at) };
        Self {
            steps: StepCache::of_steps(&plan).into_iter().enumerate().map(kept).collect(),
            is_short: plan.seconds < INLINE_SECONDS && !calls_user(),
            plan,
            has_run_on_zeros: AtomicBool::new(false),
        }
    }

    /// Returns true to one caller, which runs the program on zeros, if it is short and takes little memory.
    pub fn begins_runs_on_zeros(&self) -> bool {
        // A short run may look up a few rows of a table that fills the memory.
        let bytes = self.plan.peak_bytes.saturating_add(self.plan.bytes_up);
        let is_small = self.is_short && bytes <= LARGE as u64;
        is_small && !self.has_run_on_zeros.swap(true, Ordering::Relaxed)
    }

    /// Returns whether a run is short enough for the thread that awaits it.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The steps in the order in which they run, each with its part of the program.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&Step, &ProgramStep)> {
        self.plan.steps.iter().zip(&self.steps)
    }
}
