//! The record of a batch: its graph with the data and the residents that it reads, the user's call that is being
//! recorded, and the recorder that appends to it.

mod batch_ids;
mod call;
mod names;
#[expect(clippy::module_inception, reason = "the main type of the room has the room's name")]
mod record;
mod recorder;

pub(crate) use batch_ids::new_batch_id;
pub(crate) use call::UserCall;
#[cfg(feature = "safetensors")]
pub(crate) use names::fresh;
pub use record::UntypedId;
pub(crate) use record::{Record, Uploads};
pub(crate) use recorder::{Recorder, Refusal, Version};
