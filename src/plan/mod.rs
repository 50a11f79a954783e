//! From a graph to a [`Plan`]: which kernels run, in which order, in which memory.
//!
//! - [`passes`]: from a recorded graph to steps.
//! - [`forms`]: the kernel forms, one file or folder a form.
//! - [`mod@schedule`]: the order of the steps, the memory of their values, the waves of their uploads.
//! - [`pipeline`]: all of these, from a graph to a plan.
//! - [`mod@place`]: one plan a side, and the choice among them.
//! - [`verify`]: checks of each pass's result, in debug builds.
//! - [`mod@explain`]: a plan as text.

mod explain;
mod forms;
mod passes;
mod pipeline;
mod place;
#[cfg(test)]
pub(crate) mod reference;
mod schedule;
mod step;
mod step_parts;
mod verify;

#[cfg(test)]
pub(crate) use self::forms::Dims;
pub(crate) use self::forms::ProductSchedule;
pub(crate) use self::forms::map::{MapSpace, RowTable, TransposeTiles, VectorFetch};
pub(crate) use self::forms::product::{KnownTile, known_tiles};
pub(crate) use self::forms::reduce::{Met, ReduceAxes, WindowLanes, Windows};
pub(crate) use self::forms::{
    AttentionForm, AttentionLayout, AttentionSchedule, Bordered, CollapsedAxes, CustomForm, Form,
    MapForm, MapSchedule, MatMulForm, Measure, ProductLayout, ReduceForm, ReduceLayout,
    ReduceSchedule, RowForm, ScanForm, Sliding, SortForm, SortSchedule, Spread, Strip, Tile,
    UnitTile,
};
pub(crate) use self::pipeline::plan;
pub(crate) use self::place::chooser::Chooser;
pub(crate) use self::place::placed::{Placed, Planned};
pub(crate) use self::place::routes::Routes;
pub(crate) use self::place::split::{PartValue, Phase, Split, SplitPart, Supply};
pub(crate) use self::schedule::waves::Wave;
pub use explain::Explanation;
pub(crate) use place::place;
pub(crate) use step::Step;
#[cfg(test)]
pub(crate) use step::{Cost, Scratch};
pub(crate) use step_parts::{OperandSource, Space, StepOperand, StepOutput, ValueId};

use std::sync::Arc;

use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::cost::{Backend, DeviceProfile, Limits, Prediction};
use crate::graph::NodeId;

/// The device that a plan is made for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub backend: Backend,
    pub limits: Limits,
    /// Speeds of both sides.
    pub profile: Arc<DeviceProfile>,
}

/// The kernels of a graph, with their order and memory: plain data, made once, run any number of times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub backend: Backend,
    /// Everything that has storage.
    pub values: Vec<Value>,
    /// The kernels, in the order in which they run.
    pub steps: Vec<Step>,
    /// Bytes of each buffer that lives for one run, in the device's storage.
    pub slots: Vec<u64>,
    /// The operations that can fail on the data, in the order recorded.
    pub sites: Vec<NodeId>,
    /// The downloaded values, in the order of `Graph::outputs`.
    pub downloads: Vec<ValueId>,
    /// The values that stay on the device, in the order of `Graph::keeps`.
    pub keeps: Vec<ValueId>,
    /// Bytes that a run holds at once: slots, kept results and bound residents.
    pub peak_bytes: u64,
    /// Bytes that a run holds until it is done: its slots, its kept results, and on a GPU the staging memory of the
    /// host.
    pub held_bytes: u64,
    /// Bytes that go to the device and back, without parameters.
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// The parts that are submitted one after the other, at least two; none if all is submitted at once.
    pub waves: Vec<Wave>,
    /// Predicted seconds for which the device works while uploads are packed.
    pub overlap: f64,
    /// Predicted seconds of a whole run.
    pub seconds: f64,
}

/// A value with storage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub node: NodeId,
    /// The operation that made it, and where that was recorded.
    pub op: &'static str,
    pub place: Place,
    pub dtype: DType,
    pub shape: Shape,
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
    /// A buffer of its own that outlives the run: position in [`Plan::keeps`].
    Kept(usize),
}

/// The place at which a run failed. The first failure is the one of the least site and, within it, of the least
/// position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Failed {
    /// The operation, by position in [`Plan::sites`].
    pub site: u32,
    /// The element, by position in row-major order.
    pub at: u32,
}

impl Plan {
    /// The plan of no kernels.
    pub fn empty(backend: Backend) -> Self {
        Self {
            backend,
            values: Vec::new(),
            steps: Vec::new(),
            slots: Vec::new(),
            sites: Vec::new(),
            downloads: Vec::new(),
            keeps: Vec::new(),
            peak_bytes: 0,
            held_bytes: 0,
            bytes_up: 0,
            bytes_down: 0,
            waves: Vec::new(),
            overlap: 0.0,
            seconds: 0.0,
        }
    }

    /// The number of dispatches of a GPU. On the host's cores, each kernel with something to do counts once.
    pub fn dispatches(&self) -> u64 {
        let dispatches = |step: &Step| match self.backend {
            Backend::Cpu => u64::from(!step.is_empty()),
            Backend::Gpu => step.dispatches(),
        };
        self.steps.iter().map(dispatches).sum()
    }

    /// The predicted time of a run on the target that the plan was made for.
    pub fn predicted(&self, target: &Target) -> Prediction {
        let steps = self.steps.iter().map(|step| match self.backend {
            Backend::Cpu => step.cost.cpu_seconds,
            Backend::Gpu => step.cost.gpu_seconds,
        });
        let profile = &target.profile;
        let run = profile.side(self.backend).run(steps.sum(), self.bytes_up, self.bytes_down);
        Prediction { overlap: self.overlap, ..run }
    }
}

impl Value {
    /// Its size in the device's storage.
    pub fn bytes(&self, limits: &Limits) -> u64 {
        self.shape.elements() as u64 * limits.stored(self.dtype)
    }
}
