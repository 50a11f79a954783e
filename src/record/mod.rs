//! The record of a batch: its graph with the data and the residents that it reads.

mod names;
mod recorded;

pub(crate) use recorded::Recorded;
