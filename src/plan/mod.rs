//! From a graph to a [`Plan`]: which kernels run, in which order, in which memory.

mod step;
mod target;

pub(crate) use step::{
    Cost, Dims, Form, Operand, ReduceLayout, ReduceSchedule, Scratch, Source, Space, Step,
    StepOutput, Tile, ValueId,
};
pub use target::Backend;
pub(crate) use target::Limits;

use crate::dtype::DType;
use crate::graph::NodeId;
use crate::shape::Shape;

/// What will run: plain data, made once, run as often as wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub backend: Backend,
    /// Everything that has storage.
    pub values: Vec<Value>,
    /// In the order in which they run.
    pub steps: Vec<Step>,
    /// Bytes of each buffer that lives for one run, in the device's storage.
    pub slots: Vec<u64>,
    /// What is downloaded.
    pub downloads: Vec<ValueId>,
    /// What stays on the device.
    pub keeps: Vec<ValueId>,
    /// The most bytes that live at once during a run: slots, kept results and bound residents.
    pub peak_bytes: u64,
}

/// A value with storage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub node: NodeId,
    /// The operation that made it.
    pub op: &'static str,
    pub dtype: DType,
    pub shape: Shape,
    pub home: Home,
}

/// Where a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// The batch's upload `input`. On a GPU it is copied to the buffer `slot` at the start of a run;
    /// on the CPU it is read where it lies.
    Upload { input: u32, slot: Option<usize> },
    /// The batch's bound resident of this position.
    Resident(u32),
    /// A buffer of the run.
    Slot(usize),
    /// A buffer of its own that outlives the run: position in [`Plan::keeps`].
    Kept(usize),
}
