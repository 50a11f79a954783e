//! The CPU runner. It computes each step of a plan in tiles that stay in the cache.

mod chain;
mod failures;
mod forms;
mod offload;
mod operands;
mod program;
mod run;
mod step_cache;
mod step_job;
mod tape;
#[cfg(test)]
mod tests;
mod values;
mod vectors;

pub(crate) use offload::{CpuJob, begin_inline, run_inline, run_off_thread};
pub(crate) use program::CpuProgram;
pub(crate) use run::CpuRun;
pub(crate) use values::RunData;

use self::step_cache::ExprHole;
use self::step_job::StepJob;
