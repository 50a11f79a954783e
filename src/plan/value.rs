//! The values of a plan: results of steps, uploads and residents, each with its memory.

use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::cost::Limits;
use crate::graph::NodeId;

/// A value with storage, by position in [`Plan::values`](super::Plan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ValueId(pub u32);

impl ValueId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A value with storage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub node: NodeId,
    /// The operation that made it, and where that was recorded.
    pub op: &'static str,
    pub place: Place,
    pub dtype: DType,
    /// The shape, outermost axis of memory first.
    pub shape: Shape,
    /// True if these are images whose axis of channels was moved behind all others.
    pub channels_last: bool,
    pub home: Home,
}

/// The memory of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// The plan's upload `input`. On a GPU it is copied to the buffer `slot` at the start of a run;
    /// on the CPU it is read where it lies.
    Upload { input: u32, slot: Option<usize> },
    /// The plan's bound resident of this position.
    Resident(u32),
    /// A buffer of the run.
    Slot(usize),
    /// A buffer of its own that outlives the run: position in [`Plan::keeps`](super::Plan::keeps).
    Kept(usize),
}

impl Value {
    /// Its size in the device's storage.
    pub fn bytes(&self, limits: &Limits) -> u64 {
        self.shape.elements() as u64 * limits.stored(self.dtype).bytes()
    }
}
