//! The path of a run to the device and back.
//!
//! ```text
//!                 lease            encode              enter
//!    GpuRunInputs ─────▶ LeasedRun ──────▶ EncodedRun ──────▶ pending ────────┐ submitted, together with others
//!                                              │                │             │
//!                                              │ submit         │ abandon     ▼
//!                                              └──────────────────────────▶ in flight
//!                                                               │             │ complete
//!                                                               │ refuse      ▼
//!                                                               └────────▶ completed ──▶ mapped ──▶ released
//! ```
//!
//! | state | held by | leaves it |
//! |---|---|---|
//! | leased | [`run`]: the buffers of a [`buffer_request`], from the pool or new | when its uploads are packed ([`stage`]) and its commands encoded ([`encode`], [`commands`]) |
//! | pending | [`coalesce`]: small runs wait while the device is busy | when few submissions are in flight |
//! | in flight | [`poll`]: the future of the run polls the device, or a thread does | when the callbacks come that [`MappedAfter`](submission::MappedAfter) registers |
//! | completed | [`submission_future`]: the future of the run | when the future is polled |
//! | mapped | [`run_results`]: results that the user reads | when the user drops them: then the buffer returns to the pool |
//!
//! [`submission`] has the states from pending to completed, and is the only file that changes them.
//! [`engine`] has all parts of an opened GPU, and ties `coalesce` and `poll` together. [`run_inputs`] describes a run,
//! [`resident`] moves values that stay on the device, [`stamps`] takes times.

pub(crate) mod buffer_request;
pub(crate) mod coalesce;
pub(crate) mod commands;
pub(crate) mod encode;
pub(crate) mod engine;
#[cfg_attr(target_arch = "wasm32", path = "browser_poll.rs")]
pub(crate) mod poll;
pub(crate) mod resident;
pub(crate) mod run;
pub(crate) mod run_inputs;
pub(crate) mod run_results;
mod stage;
mod stamps;
pub(crate) mod submission;
pub(crate) mod submission_future;
