//! The record of a batch: its graph with the data and the residents that it reads, the user's call that is being
//! recorded, and the recorder that appends to it.

mod call;
mod names;
mod recorded;
mod recorder;

pub(crate) use call::UserCall;
pub use recorded::UntypedId;
pub(crate) use recorded::{Recorded, Uploads};
pub(crate) use recorder::{Recorder, Refusal, Version, elsewhere};
