//! Trials of graphs near a tie: the data of one trial, and the trials of a profile.

mod learned;
mod trial;

pub use learned::Learned;
pub(crate) use learned::{MOST_TRIALS, Tried};
pub(crate) use trial::{Ran, Seen, Trial};
