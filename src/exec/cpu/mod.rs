//! The CPU runner. It computes each step of a plan in tiles that stay in the cache.

mod failures;
mod forms;
mod job;
mod offload;
mod operands;
mod program;
mod run;
mod tape;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use offload::{CpuJob, begin_inline, run_inline, run_off_thread};
pub(crate) use program::CpuProgram;
pub(crate) use run::CpuRun;
pub(crate) use values::RunData;

use self::job::Job;
use self::program::ExprHole;
