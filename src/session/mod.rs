//! The run of a batch, from the choice of a plan to results and residents.
//!
//! A [`Session`](session::Session) takes a run through the states of [`RunState`](state::RunState): choose → admit →
//! run → commit, and recover after a failure. An [`Attempt`](attempt::Attempt) is one try on the device: one
//! [`PieceRun`](piece_run::PieceRun) where all is on one side, several if the graph is split.

mod attempt;
mod fault;
mod host_or_gpu_result;
mod piece_run;
mod plans;
mod repeat;
mod reserve;
mod results;
mod run_loop;
#[expect(clippy::module_inception, reason = "the main type of the room has the room's name")]
mod session;
mod state;
mod stats;

pub(crate) use host_or_gpu_result::{HostOrGpuResult, STRIDE};
pub(crate) use repeat::{recover_for_repeat, repeated};
pub(crate) use results::{RunDone, RunResults};
pub(crate) use session::LastChoice;
pub use stats::RunStats;
