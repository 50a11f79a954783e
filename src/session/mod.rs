//! The run of a batch, from the choice of a plan to results and residents.
//!
//! [`RunLoop`](run_loop::RunLoop) takes a run through the states of [`RunState`](state::RunState): choose → admit → run
//! → commit, and recover after a failure. A [`SingleRun`](single_run::SingleRun) is one attempt on the device: one
//! [`PieceRun`](piece_run::PieceRun) where all is on one side, several if the graph is split.

mod fault;
mod host_or_gpu_result;
mod piece_run;
mod plans;
mod repeat;
mod results;
mod run_loop;
mod single_run;
mod state;
mod stats;

pub(crate) use host_or_gpu_result::{HostOrGpuResult, STRIDE};
pub(crate) use repeat::{recover_for_repeat, repeated};
pub(crate) use results::{RunDone, RunResults};
pub(crate) use run_loop::LastPlan;
pub use stats::RunStats;
