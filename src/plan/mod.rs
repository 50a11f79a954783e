//! From a graph to a [`Plan`]: which kernels run, in which order, in which memory.
//!
//! - [`passes`]: from a recorded graph to steps.
//! - [`forms`]: the kernel forms, a file or folder each, and what several of them share.
//! - [`mod@order`]: the order of the steps, the memory of their values, the waves of their uploads.
//! - [`pipeline`]: all of these, from a graph to a plan.
//! - [`placement`]: one plan a side, and the choice among them.
//! - [`verify`]: checks of each pass's result, in debug builds.
//! - [`mod@explain`]: a plan as text and as a picture.

mod execution_plan;
mod explain;
mod forms;
mod order;
mod passes;
mod pipeline;
mod placement;
#[cfg(test)]
pub(crate) mod reference;

mod step;
mod step_parts;
mod target;
mod value;
mod verify;

pub(crate) use self::execution_plan::Plan;
#[cfg(feature = "gpu")]
pub(crate) use self::execution_plan::Wave;
#[cfg(test)]
pub(crate) use self::forms::Dims;
pub(crate) use self::forms::ProductSchedule;
pub(crate) use self::forms::map::{MapSpace, RowTable, TransposeTiles, VectorFetch};
pub(crate) use self::forms::product::{KnownTile, known_tiles};
pub(crate) use self::forms::reduce::{ReduceAxes, ThreadWindows, WindowElement, WindowLanes};
pub(crate) use self::forms::{
    AttentionForm, AttentionLayout, AttentionSchedule, CollapsedAxes, CustomForm, Form, MapForm,
    MapSchedule, Measure, ProductForm, ProductLayout, ReduceForm, ReduceLayout, ReduceSchedule,
    RowForm, SHORTEST_STRETCH, ScanForm, Sliding, SlidingAxis, SortForm, SortSchedule, Spread,
    Strip, Tile, UnitTile, WORKGROUP_THREADS,
};
pub(crate) use self::passes::expression::evaluate_element;
pub(crate) use self::pipeline::plan;
pub(crate) use self::placement::chosen_by::ChosenBy;
pub(crate) use self::placement::placed::{Pieces, PlacedGraph};
pub(crate) use self::placement::split::{PartValue, Phase, Split, SplitPart, Supply};
pub use explain::Explanation;
pub(crate) use placement::choose_route;
pub(crate) use step::Step;
#[cfg(test)]
pub(crate) use step::{Cost, Scratch, StepOp};
pub(crate) use step_parts::{Border, Join, OperandSource, Space, StepOperand, StepOutput};
pub(crate) use target::Target;
pub(crate) use value::{Home, Value, ValueId};
