//! The path of a run to the device and back.
//!
//! ```text
//!            request           script               enter
//!    GpuJob ─────────▶ leased ────────▶ encoded ───────────▶ pending ─────────┐ submitted, together with others
//!                                          │                    │             │
//!                                          │ submit             │ abandon     ▼
//!                                          └──────────────────────────────▶ in flight
//!                                                               │             │ complete
//!                                                               │ refuse      ▼
//!                                                               └────────▶ completed ──▶ mapped ──▶ released
//! ```
//!
//! | state | held by | leaves it |
//! |---|---|---|
//! | leased | [`run`]: the buffers of a [`request`], from the pool or new | when its uploads are packed ([`stage`]) and its commands encoded ([`encode`], [`record`]) |
//! | pending | [`coalesce`]: small runs wait while the device is busy | when few submissions are in flight |
//! | in flight | [`poll`]: the future of the run polls the device, or a thread does | when the callbacks come that [`MappedAfter`](completion::MappedAfter) registers |
//! | completed | [`flight`]: the future of the run | when the future is polled |
//! | mapped | [`readback`]: results that the user reads | when the user drops them: then the buffer returns to the pool |
//!
//! [`completion`] has the states from pending to completed, and is the only file that changes them.
//! [`engine`] has all parts of an opened GPU, and ties `coalesce` and `poll` together. [`job`] describes a run,
//! [`resident`] moves values that stay on the device, [`stamps`] takes times.

pub(crate) mod coalesce;
pub(crate) mod completion;
pub(crate) mod encode;
pub(crate) mod engine;
pub(crate) mod flight;
pub(crate) mod job;
#[cfg_attr(target_arch = "wasm32", path = "callbacks.rs")]
pub(crate) mod poll;
pub(crate) mod readback;
mod record;
pub(crate) mod request;
pub(crate) mod resident;
pub(crate) mod run;
mod stage;
mod stamps;
