//! What can go wrong: one enum a stage, all wrapped by [`Error`]. Every message says where, what
//! and what to do.

use std::fmt;
use std::panic::Location;

use thiserror::Error;

use crate::dtype::DType;
use crate::shape::{MAX_RANK, Shape};

/// The result of a fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that a call can report. `Debug` prints the message too, so that `main` may return it.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// Mistakes in what was recorded, all of them.
    #[error(transparent)]
    Record(#[from] Mistakes),
    /// The graph is sound, but cannot be planned for this device.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The device could not be opened, or failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The run found data that an operation cannot work with.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A run was not made, or not to its end, though nothing failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A result was asked for that is not there.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Data for an upload or a resident does not fit.
    #[error(transparent)]
    Data(#[from] DataError),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Every mistake in a recorded graph, in the order in which they were made.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistakes(pub(crate) Vec<Mistake>);

impl Mistakes {
    /// The mistakes, in the order in which they were made.
    #[must_use]
    pub fn list(&self) -> &[Mistake] {
        &self.0
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}
impl std::error::Error for Mistakes {}

/// One mistake: where it was recorded, in which operation, and what is wrong.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{}:{}: {op}: {what}", place.file(), place.line())]
pub struct Mistake {
    /// The caller's file and line.
    pub place: &'static Location<'static>,
    /// The method that was called.
    pub op: &'static str,
    /// What is wrong, and what to do.
    pub what: MistakeKind,
}

/// What is wrong with a recorded operation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MistakeKind {
    /// The shapes cannot be broadcast together.
    #[error(
        "shapes {0} and {1} do not broadcast: aligned at the last dimension, sizes must be equal or 1"
    )]
    Broadcast(Shape, Shape),
    /// A matrix product of a scalar.
    #[error(
        "operands need at least one dimension, not {0} · {1}; use `mul` to multiply by a scalar"
    )]
    MatMulRank(Shape, Shape),
    /// A matrix product of vectors of unequal length.
    #[error(
        "inner dimensions differ: x {0} · w {1}; the last axis of x must equal the last but one of w \
         (`transpose` swaps them)"
    )]
    MatMulInner(Shape, Shape),
    /// The leading dimensions of a batched product do not broadcast.
    #[error("batch dimensions of x {0} · w {1} do not broadcast: sizes must be equal or 1")]
    MatMulBatch(Shape, Shape),
    /// Operands of an attention that do not fit.
    #[error(
        "queries, keys, values (and mask) {0:?} do not fit: they are […, L, E], […, S, E], […, S, Ev] (and broadcast to […, L, S])"
    )]
    Attention(Vec<Shape>),
    /// A dot product of anything but two vectors of one length.
    #[error("needs two vectors of equal length, not {0} and {1}; use `matmul` for matrices")]
    Dot(Shape, Shape),
    /// An axis that is not there.
    #[error("axis {axis} is out of range for shape {shape}, which has {}", axes(shape.rank()))]
    Axis {
        /// The axis as given.
        axis: isize,
        /// The shape that lacks it.
        shape: Shape,
    },
    /// A new axis past the end.
    #[error("a new axis {axis} is out of range for shape {shape}: it may be {} to {}", -(shape.rank() as isize) - 1, shape.rank())]
    NewAxis {
        /// The axis as given.
        axis: isize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// A transpose of a scalar or vector.
    #[error("needs at least two axes, and shape {0} has {n}; use `reshape` to make a row or column", n = axes(.0.rank()))]
    Transpose(Shape),
    /// The same axis given twice.
    #[error("axis {axis} is given twice for shape {shape}")]
    AxisTwice {
        /// The axis as given.
        axis: isize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// A permutation that leaves out an axis.
    #[error("a permutation of shape {shape} names each of its {} axes once, not {axes:?}", shape.rank())]
    Permutation {
        /// The axes as given.
        axes: Vec<isize>,
        /// The shape of the argument.
        shape: Shape,
    },
    /// A reshape that changes the number of elements.
    #[error("cannot reshape {from} ({} elements) to {to} ({} elements)", from.elements(), to.elements())]
    Reshape {
        /// The shape of the argument.
        from: Shape,
        /// The shape asked for.
        to: Shape,
    },
    /// A broadcast to a shape that does not extend the argument's.
    #[error("cannot broadcast {from} to {to}: only sizes of 1 can grow")]
    BroadcastTo {
        /// The shape of the argument.
        from: Shape,
        /// The shape asked for.
        to: Shape,
    },
    /// Squeezing an axis with more than one element.
    #[error("axis {axis} of {shape} has size {}, and only a size of 1 can be squeezed", shape[*axis])]
    Squeeze {
        /// The axis.
        axis: usize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// A list with one entry an axis has another length.
    #[error("{what} needs one entry for each of the {} axes of {shape}, not {given}", shape.rank())]
    PerAxis {
        /// Which list.
        what: &'static str,
        /// Its length.
        given: usize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// A slice that reaches out of its axis.
    #[error("slice {start}..{end} does not lie in axis {axis} of {shape}; it needs start <= end <= {}", shape[*axis])]
    SliceRange {
        /// First index.
        start: usize,
        /// One past the last index.
        end: usize,
        /// The axis.
        axis: usize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// A slice that does not move.
    #[error(
        "the step of axis {0} is 0; use 1 to take every element, a negative step to go backwards"
    )]
    SliceStep(usize),
    /// A tensor whose axes are not those that the operation works on.
    #[error("{what} must be {wanted}, not {shape}")]
    Layout {
        /// Which operand.
        what: &'static str,
        /// The axes it needs.
        wanted: &'static str,
        /// Its shape.
        shape: Shape,
    },
    /// Filters that do not fit the channels that they are to see.
    #[error(
        "filters {w} in {groups} groups do not fit {x}: the channels of x must be those of w times the groups, and the \
         filters a multiple of the groups"
    )]
    Channels {
        /// The shape of the argument.
        x: Shape,
        /// The shape of the filters.
        w: Shape,
        /// The number of groups.
        groups: usize,
    },
    /// Channels that groups do not divide.
    #[error("{} channels of {shape} cannot be cut into {groups} groups of one size", shape[1])]
    Groups {
        /// The number of groups.
        groups: usize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// Windows that are longer than what they slide along.
    #[error(
        "a window that reaches over {reach} elements does not fit into axis {axis} of {shape} with its padding"
    )]
    Window {
        /// From the first element of a window to its last.
        reach: usize,
        /// The axis.
        axis: usize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// No tensor, where there must be one.
    #[error("needs at least one tensor")]
    ConcatEmpty,
    /// Shapes that differ off the axis of concatenation.
    #[error("{other} does not fit {first}: all axes but axis {axis} must be equal")]
    Concat {
        /// The first shape.
        first: Shape,
        /// The one that does not fit.
        other: Shape,
        /// The axis of concatenation.
        axis: usize,
    },
    /// A reduction that has no value over no elements.
    #[error(
        "axis {axis} of {shape} is empty, and {op} of no elements has no value; leave the empty case out"
    )]
    EmptyReduction {
        /// The reduction.
        op: &'static str,
        /// The empty axis.
        axis: usize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// Anything but a vector where one is needed.
    #[error("needs a vector, not {0}; use `reshape`")]
    NotAVector(Shape),
    /// Updates that do not fit what they are scattered to: the shape that they need, and theirs.
    #[error("updates must be {0}, one along the axis for each index, not {1}")]
    Updates(Shape, Shape),
    /// A part of a layer of another shape than the others ask for.
    #[error("{what} of shape {given}, where the other shapes ask for {wanted}")]
    LayerShape {
        /// Which part.
        what: &'static str,
        /// Its shape.
        given: Shape,
        /// The shape that would fit.
        wanted: Shape,
    },
    /// A sequence, or states of cells, without three dimensions.
    #[error("sequences and states need three dimensions, as [steps, batch, width], not {0}")]
    Sequence(Shape),
    /// Two shapes that must be equal.
    #[error("shapes {0} and {1} must be equal; use `broadcast_to` to repeat one of them")]
    UnequalShapes(Shape, Shape),
    /// Classes that do not belong to the elements that they are to name.
    #[error(
        "classes of shape {classes} do not fit {shape}: they need its shape without axis {axis}, that of the classes"
    )]
    Classes {
        /// The shape of the classes.
        classes: Shape,
        /// The shape of the argument.
        shape: Shape,
        /// The axis along which the classes lie there.
        axis: usize,
    },
    /// Subscripts of Einstein's summation that cannot be read.
    #[error("in \"{subscripts}\", at character {}: {what}", at + 1)]
    Subscripts {
        /// The subscripts.
        subscripts: String,
        /// The character, counted from 0.
        at: usize,
        /// What is wrong there.
        what: String,
    },
    /// A label of Einstein's summation that stands for axes of different sizes.
    #[error("in \"{subscripts}\", `{label}` has sizes {} and {}: they must be equal or 1", sizes[0], sizes[1])]
    LabelSizes {
        /// The subscripts.
        subscripts: String,
        /// The label.
        label: String,
        /// Two of its sizes.
        sizes: [usize; 2],
    },
    /// Indices whose shape does not fit that of the table.
    #[error(
        "indices {1} do not fit {0}: as many axes, and equal sizes or 1 on all but axis {2}, are needed"
    )]
    TakeAlong(Shape, Shape, usize),
    /// An element type that the operation does not take.
    #[error("does not take {0}; use `cast` first")]
    DType(DType),
    /// Two element types where one is needed.
    #[error("element types differ: {0} and {1}; use `cast`")]
    DTypes(DType, DType),
    /// An upload whose data does not fill its shape.
    #[error("{given} elements do not fill shape {shape}, which has {}", shape.elements())]
    UploadLength {
        /// Elements given.
        given: usize,
        /// The shape.
        shape: Shape,
    },
    /// More dimensions than supported.
    #[error("{0} dimensions are more than the {MAX_RANK} supported; merge some")]
    Rank(usize),
    /// More elements than can be addressed.
    #[error("shape {0} has more elements than can be addressed")]
    TooLarge(Shape),
    /// Data for which the host has no memory.
    #[error("the host has no memory left for {dtype}{shape}; free residents, or split the batch")]
    NoRoom {
        /// The shape of the data.
        shape: Shape,
        /// Its element type.
        dtype: DType,
    },
    /// A range without end or with too many elements, or whose step is 0 or not finite.
    #[error(
        "a range from {start} to {stop} by {step} has no length that can be counted in 31 bits; \
         the numbers must be finite, and the step not 0"
    )]
    Arange {
        /// First value.
        start: String,
        /// End of the range.
        stop: String,
        /// Step.
        step: String,
    },
    /// A number that the operation cannot work with.
    #[error("{what} must be {must}, not {given}")]
    Parameter {
        /// Which parameter.
        what: &'static str,
        /// What it must be.
        must: &'static str,
        /// What was given.
        given: String,
    },
    /// An id of another batch.
    #[error(
        "this id belongs to another batch; use `keep` and `bind` to hand data from batch to batch"
    )]
    Foreign,
    /// The function that was to write the data panicked.
    #[error("what was to write the data panicked: {0}")]
    Panicked(String),
    /// A name that another value has.
    #[error("another value of this batch is called {0:?}; give each a name of its own")]
    NameTaken(String),
    /// A second new value for a resident.
    #[error("the batch has a new value for this resident already; update it once a run")]
    UpdatedTwice,
    /// A new value for a resident of another shape.
    #[error("a resident of shape {old} cannot take a value of shape {new}; `reshape` it")]
    Update {
        /// The shape of the resident.
        old: Shape,
        /// The shape of the value.
        new: Shape,
    },
    /// A resident of another device.
    #[error("this resident lives on another device ({0}); upload the data to this one")]
    ForeignResident(String),
    /// The engine broke a rule of its own.
    #[error("internal: {0}; please report this")]
    Internal(&'static str),
}

/// Why a sound graph cannot be planned or run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Nothing was recorded, so there is nothing to run.
    #[error("the batch is empty; record at least one operation or upload before it is executed")]
    Empty,
    /// A tensor is larger than the adapter can bind.
    #[error(
        "{place}: {op} makes {what} of {bytes} bytes, and {adapter} binds at most {limit}; \
         split it, or run on `Device::cpu()`"
    )]
    TooLarge {
        /// Where it was recorded.
        place: String,
        /// The operation.
        op: &'static str,
        /// Element type and shape.
        what: String,
        /// Its size on the device.
        bytes: u64,
        /// The most that can be bound.
        limit: u64,
        /// The adapter's name.
        adapter: String,
    },
    /// A kernel iterates over more points than a GPU's 32-bit indices count.
    #[error(
        "{place}: {op} iterates over {points} points, and {adapter} counts in 32 bits; \
         split it, or run on `Device::cpu()`"
    )]
    TooManyPoints {
        /// Where it was recorded.
        place: String,
        /// The operations of the kernel.
        op: String,
        /// How many points.
        points: u64,
        /// The adapter's name.
        adapter: String,
    },
    /// A pass broke an invariant of the plan.
    #[error("internal: after pass `{pass}`: {what}; please report this")]
    Invalid {
        /// The pass that was run last.
        pass: &'static str,
        /// The broken invariant.
        what: String,
    },
    /// A placement on a side that the device has not, or may not use.
    #[error(
        "the batch is placed on the {side}, which its device does not use; \
         open it with `Device::auto()`, or choose another placement"
    )]
    NoSuchSide {
        /// The side.
        side: String,
    },
    /// A resident that is not filled yet.
    #[error("{place}: the resident bound here is empty: execute the batch that keeps it first")]
    EmptyResident {
        /// Where it was bound.
        place: String,
    },
}

/// Why a device could not be opened, or failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No adapter fits.
    #[error("no GPU adapter {wanted}; found: {found}. {hint}")]
    NoAdapter {
        /// What was asked for.
        wanted: String,
        /// The adapters that are there.
        found: String,
        /// What to do.
        hint: &'static str,
    },
    /// Built without GPU support.
    #[error("this build has no GPU support; enable the feature `gpu`, or use `Device::cpu()`")]
    NoGpuSupport,
    /// The device has no GPU.
    #[error("the device has no GPU; open it with `Device::gpu()` or `Device::auto()`")]
    NoGpu,
    /// A device of the caller's own that allows too little.
    #[error(
        "the wgpu device has {limit} {found}, and at least {needed} is needed; open it with `required_limits: adapter.limits()`"
    )]
    Lacks {
        /// The limit, as wgpu calls it.
        limit: &'static str,
        /// What the device has.
        found: u64,
        /// What is needed.
        needed: u64,
    },
    /// An environment variable with a value that is not understood.
    #[error("{variable}={value} is not understood; use {expected}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A profile or selector with a number that is no time or rate.
    #[error("{what}: must be a positive number, and sizes must ascend")]
    Profile {
        /// Which figure.
        what: String,
    },
    /// The adapter refused to open a device.
    #[error("adapter {adapter} gave no device: {reason}")]
    Open {
        /// The adapter's name.
        adapter: String,
        /// What it said.
        reason: String,
    },
    /// The device is lost.
    #[error(
        "the device is lost ({reason}); open a new one with `Device::gpu()`, go on with `Device::cpu()`, \
         or have a `Recovery` do so"
    )]
    Lost {
        /// What the driver said.
        reason: String,
    },
    /// The device is lost, and its adapter gave no other.
    #[error(
        "the device is lost ({reason}) and could not be opened again: {why}; use `Recovery::Cpu`"
    )]
    NotReopened {
        /// What the driver said when the device was lost.
        reason: String,
        /// Why the adapter gave no other.
        why: String,
    },
    /// Data that lay on a lost device alone.
    #[error(
        "the resident {what} made at {place} was lost with its device; make it again, \
         or call `keep_host_copy` on it before"
    )]
    ResidentLost {
        /// Element type and shape.
        what: String,
        /// Where it was made.
        place: String,
    },
    /// Memory is exhausted, on the device or on the host.
    #[error("out of memory while {doing}; free residents, split the batch, or use another device")]
    OutOfMemory {
        /// What was being done.
        doing: String,
    },
    /// The driver or wgpu refused something that the engine made.
    #[error("internal: {doing} was refused: {reason}; please report this")]
    Refused {
        /// What was being done.
        doing: String,
        /// What was said.
        reason: String,
    },
}

impl PlanError {
    /// Whether the graph is sound, and the device too small for it.
    pub(crate) fn is_of_size(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::TooManyPoints { .. })
    }
}

impl DeviceError {
    /// A plan that is not what its run counts on.
    pub(crate) fn broken(reason: &str) -> Self {
        Self::Refused { doing: "running a plan".into(), reason: reason.into() }
    }
}

/// Data that an operation cannot work with, found by the run: the first that there is, by the order in which operations
/// were recorded, and by the position of the element.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}:{}: {op}: {}", place.file(), place.line(), what.at(at))]
pub struct Fault {
    /// Where the operation was recorded.
    pub place: &'static Location<'static>,
    /// The method that recorded it.
    pub op: &'static str,
    /// Where the index is among the indices; of a division, where its result is.
    pub at: Vec<usize>,
    /// What is wrong.
    pub what: FaultKind,
}

/// What is wrong with data that a run found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// An index out of range.
    Index {
        /// The index, where the host knows it: of what was uploaded.
        index: Option<i64>,
        /// The axis that it indexes.
        axis: usize,
        /// The number of elements along that axis.
        size: usize,
    },
    /// A class that is none of those from 0 on.
    Class {
        /// The class, where the host knows it: of what was uploaded.
        class: Option<i64>,
        /// How many there are.
        classes: usize,
    },
    /// An integer divided by 0.
    DivisionByZero,
}

impl FaultKind {
    /// The message for the element `at`.
    fn at(&self, at: &[usize]) -> String {
        match self {
            Self::Index { index, axis, size } => {
                let index = index.map_or("an index".to_owned(), |index| format!("index {index}"));
                format!("{index} at {at:?} is out of range for axis {axis} of size {size}")
            }
            Self::Class { class, classes } => {
                let class = class.map_or("a class".to_owned(), |class| format!("class {class}"));
                format!("{class} at {at:?} is none of 0..{classes}")
            }
            Self::DivisionByZero => format!("division by zero at {at:?}"),
        }
    }
}

/// Why a run was not made, or not to its end, though nothing failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunError {
    /// It needs more memory than runs may ever hold at once.
    #[error(
        "the run holds {needs} bytes at once, and the device's budget is {budget}; \
         split the batch, or open the device with another `memory_budget`"
    )]
    OverBudget {
        /// Bytes that the run holds at once.
        needs: u64,
        /// The device's budget in bytes.
        budget: u64,
    },
    /// It took longer than it was given.
    #[error("the run was not done within {0:?}; give it longer, or run it again")]
    Deadline(std::time::Duration),
    /// The caller stopped it.
    #[error("the run was cancelled")]
    Cancelled,
    /// A function that the caller gave it panicked.
    #[error("what was to be told of the progress panicked: {0}")]
    Panicked(String),
}

/// Why a result is not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing has been executed yet.
    #[error(
        "nothing was executed since the last change to the batch; call `execute` before `read`"
    )]
    NotExecuted,
    /// The id was not among what was downloaded.
    #[error(
        "{op} (recorded at {place}) was not downloaded; call `download(id)` on it before `execute`"
    )]
    NotDownloaded {
        /// The operation.
        op: &'static str,
        /// Where it was recorded.
        place: String,
    },
    /// An id of another batch.
    #[error("this id belongs to another batch; read it from the batch that made it")]
    Foreign,
    /// No value has the name.
    #[error("no value is called {0:?}; `input` and `name` give names")]
    UnknownName(String),
    /// Elements of another type than the result has.
    #[error("{name:?} has elements of type {found}, not {asked}; read it as {found}")]
    DType {
        /// What it is called.
        name: String,
        /// Its element type.
        found: DType,
        /// The element type asked for.
        asked: DType,
    },
    /// A result that was not kept.
    #[error("{op} (recorded at {place}) was not kept; call `keep(id)` on it before `compile`")]
    NotKept {
        /// The operation.
        op: &'static str,
        /// Where it was recorded.
        place: String,
    },
    /// A resident that no run has filled.
    #[error("{place}: the resident made here is empty: execute the batch that keeps it first")]
    EmptyResident {
        /// Where it was made.
        place: String,
    },
}

/// Why data given outside a graph does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DataError {
    /// The wrong number of elements.
    #[error("{given} elements do not fill shape {shape}, which has {}", shape.elements())]
    Length {
        /// Elements given.
        given: usize,
        /// The shape.
        shape: Shape,
    },
    /// An array of another shape, though it may have as many elements.
    #[error("an array of {given} does not fit {expected}; transpose or reshape it first")]
    Shape {
        /// The array's shape.
        given: Shape,
        /// The shape that it must have.
        expected: Shape,
    },
    /// More dimensions than supported.
    #[error("{0} dimensions are more than the {MAX_RANK} supported; merge some")]
    Rank(usize),
    /// Elements of another type than the input has.
    #[error("the input takes {expected}, not {given}; give it elements of that type")]
    DType {
        /// The input's element type.
        expected: DType,
        /// The element type of what was given.
        given: DType,
    },
    /// The function that was to change the data panicked; what it left is unspecified.
    #[error("what was to change the data panicked: {0}; write it again")]
    Panicked(String),
    /// An input that has no data.
    #[error("the input {name:?} has no data; give it to the run, or `write` it")]
    NotGiven {
        /// What it is called.
        name: String,
    },
    /// No value has the name.
    #[error("no value is called {0:?}; `input` and `name` give names")]
    UnknownName(String),
    /// The id to be written is not an upload.
    #[error(
        "only an upload can be written, and this id is the result of `{0}`; use the id that `upload` returned"
    )]
    NotAnUpload(&'static str),
    /// A file that cannot be read, or is not what it should be.
    #[error("{name}: {reason}")]
    File {
        /// Its path.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A file has no tensor of the name.
    #[error("there is no tensor {name:?}; there are {there:?}")]
    NoTensor {
        /// What was asked for.
        name: String,
        /// The names of all tensors.
        there: Vec<String>,
    },
    /// A tensor of a file has elements of another type.
    #[error(
        "tensor {name:?} has elements of type {found}, not {asked}; ask for that type, or convert the file"
    )]
    TensorType {
        /// The tensor.
        name: String,
        /// Its element type.
        found: String,
        /// The element type asked for.
        asked: DType,
    },
    /// The id to be written is of another batch.
    #[error("this id belongs to another batch; write to the batch that made it")]
    Foreign,
}

/// A place in the user's code as every message shows it.
pub(crate) fn file_and_line(place: &Location<'_>) -> String {
    format!("{}:{}", place.file(), place.line())
}

/// A number of axes in words.
fn axes(rank: usize) -> String {
    format!("{rank} {}", if rank == 1 { "axis" } else { "axes" })
}
