//! The residents that a run fills, and the values that it leaves for them.

use smallvec::SmallVec;

use super::{Handle, Storage};
use crate::exec::Patch;

/// A resident that each run of a batch fills.
#[derive(Clone, Debug)]
pub(crate) struct Keep {
    pub handle: Handle,
    /// The part of the resident that the value replaces; `None` if it replaces all.
    pub patch: Option<Patch>,
}

/// The values that a run left, in the order of the graph's keeps.
pub(crate) type KeptValues = SmallVec<[Storage; 1]>;
