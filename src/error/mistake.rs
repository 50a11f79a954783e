//! Mistakes in recorded operations.

use std::borrow::Cow;

use thiserror::Error;

use super::data::Origin;
use super::fitting::{broadcast_cure, misfit_of_filters, misfit_of_parts};
use super::wording::{
    axes, elements, inner_axis, misfit_of_mask, of_another_batch, point, range, shapes_that_fit,
    transposed_fits,
};
use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::base::shape::{MAX_RANK, Shape};

/// The mistake in a recorded operation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MistakeKind {
    /// The shapes cannot be broadcast together.
    #[error(
        "shapes {0} and {1} do not broadcast: aligned at the last dimension, sizes must be equal or 1; {fix}",
        fix = broadcast_cure(.0, .1)
    )]
    Broadcast(Shape, Shape),
    /// A matrix product of a scalar.
    #[error(
        "operands need at least one dimension, not {0} · {1}; use `mul` to multiply by a scalar"
    )]
    MatMulRank(Shape, Shape),
    /// A matrix product of unequal inner dimensions.
    #[error(
        "inner dimensions differ: x {0} · w {1}; the last axis of x must equal {inner} of w{fix}",
        inner = inner_axis(.1), fix = transposed_fits(.0, .1)
    )]
    MatMulInner(Shape, Shape),
    /// The leading dimensions of a batched product do not broadcast.
    #[error(
        "batch dimensions of x {0} · w {1} do not broadcast: sizes must be equal or 1; `unsqueeze` adds a size of 1"
    )]
    MatMulBatch(Shape, Shape),
    /// Operands of an attention that do not fit.
    #[error(
        "queries, keys, values (and mask) {0:?} do not fit: they are […, L, E], […, S, E], […, S, Ev] (and broadcast to […, L, S]); \
         `permute` and `reshape` make them so"
    )]
    Attention(Vec<Shape>),
    /// A mask of an attention that does not fit the scores.
    #[error("{}", misfit_of_mask(mask, scores, *is_of_keys))]
    AttentionMask {
        /// The shape of the mask.
        mask: Shape,
        /// The shape of the scores.
        scores: Shape,
        /// True for a mask of keys, false for one that broadcasts to the scores.
        is_of_keys: bool,
    },
    /// A dot product of anything but two vectors of one length.
    #[error("needs two vectors of equal length, not {0} and {1}; use `matmul` for matrices")]
    Dot(Shape, Shape),
    /// An axis that is not there.
    #[error("axis {axis} is out of range for shape {shape}, which has {}; {}", axes(shape.rank()), range(shape.rank()))]
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
    #[error("axis {axis} is given twice for shape {shape}; name each axis once")]
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
    #[error("cannot reshape {from} ({}) to {to} ({}): the numbers must be equal; {}", elements(from.elements()), elements(to.elements()), shapes_that_fit(from, to))]
    Reshape {
        /// The shape of the argument.
        from: Shape,
        /// The shape asked for.
        to: Shape,
    },
    /// A broadcast to a shape that does not extend the argument's.
    #[error("cannot broadcast {from} to {to}: only sizes of 1 can grow; `unsqueeze` adds one")]
    BroadcastTo {
        /// The shape of the argument.
        from: Shape,
        /// The shape asked for.
        to: Shape,
    },
    /// Squeezing an axis with more than one element.
    #[error("axis {axis} of {shape} has size {}, and only a size of 1 can be squeezed; `slice` takes one element, `reshape` merges axes", shape[*axis])]
    Squeeze {
        /// The axis.
        axis: usize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// A list with one entry an axis has another length.
    #[error("{what} needs one entry for each of the {} axes of {shape}, not {given}", shape.rank())]
    PerAxis {
        /// The list.
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
    #[error("the step of axis {0} is 0; use 1 for every element, a negative step to go backwards")]
    SliceStep(usize),
    /// A tensor whose axes are not those that the operation works on.
    #[error("{what} must be {wanted}, not {shape}")]
    Layout {
        /// The operand.
        what: &'static str,
        /// The axes it needs.
        wanted: &'static str,
        /// Its shape.
        shape: Shape,
    },
    /// Filters that do not fit the channels that they are to see.
    #[error("{}", misfit_of_filters(x, w, *groups, *channels))]
    Channels {
        /// The shape of the argument.
        x: Shape,
        /// The shape of the filters.
        w: Shape,
        /// The number of groups.
        groups: usize,
        /// The channels that the filters of all groups see.
        channels: usize,
    },
    /// Channels that groups do not divide.
    #[error("{} channels of {shape} cannot be cut into {groups} groups of one size; the groups must divide the channels", shape[1])]
    Groups {
        /// The number of groups.
        groups: usize,
        /// The shape of the argument.
        shape: Shape,
    },
    /// Windows that are longer than the axis that they slide along.
    #[error(
        "a window that reaches over {reach} elements does not fit into axis {axis} of {shape}, padding included; \
         use a smaller window, or pad the axis"
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
    #[error("needs at least one tensor; `full` makes one without elements")]
    ConcatEmpty,
    /// Shapes that differ off the axis of concatenation.
    #[error("{}", misfit_of_parts(first, other, *axis))]
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
    /// A part of a layer of another shape than the others ask for.
    #[error("{what} of shape {given}, where the other shapes ask for {wanted}; {fix}")]
    LayerShape {
        /// The part.
        what: &'static str,
        /// Its shape.
        given: Shape,
        /// The shape that would fit.
        wanted: Shape,
        /// The cure.
        fix: Cow<'static, str>,
    },
    /// Two shapes that must be equal.
    #[error("shapes {0} and {1} must be equal; use `broadcast_to` to repeat one of them")]
    UnequalShapes(Shape, Shape),
    /// Classes that do not belong to the elements that they are to name.
    #[error(
        "classes of shape {classes} do not fit {shape}: they need its shape without axis {axis}, that of the classes; \
         `squeeze` or `reshape` them"
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
        /// The mistake there.
        what: String,
    },
    /// A label of Einstein's summation that stands for axes of different sizes.
    #[error("in \"{subscripts}\", `{label}` has sizes {} and {}: they must be equal or 1; give one axis another label", sizes[0], sizes[1])]
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
        "indices {1} do not fit {0}: as many axes, and equal sizes or 1 on all but axis {2}, are needed; \
         `unsqueeze` adds an axis"
    )]
    TakeAlong(Shape, Shape, usize),
    /// An element type that the operation does not take.
    #[error("does not take {0}; use `cast` first")]
    DType(DType),
    /// Two element types where one is needed.
    #[error("element types differ: {0} and {1}; use `cast`")]
    DTypes(DType, DType),
    /// An upload whose data does not fill its shape.
    #[error("{given} elements do not fill shape {shape}, which has {}; give that many, or another shape", shape.elements())]
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
    #[error("shape {0} has more elements than can be addressed; split it")]
    TooLarge(Shape),
    /// Data for which the host has no memory.
    #[error("the host has no memory left for {dtype}{shape}; free residents, or split the batch")]
    NoRoom {
        /// The shape of the data.
        shape: Shape,
        /// Its element type.
        dtype: DType,
    },
    /// A 64-bit id that the elements of its tensor cannot hold.
    #[error(
        "the id {value}{} is out of the range of {dtype}; give ids that it holds",
        point(&shape.coordinates(*at))
    )]
    IdRange {
        /// Its position in row-major order.
        at: usize,
        /// The id.
        value: i64,
        /// The element type of the tensor.
        dtype: DType,
        /// The shape of the tensor.
        shape: Shape,
    },
    /// A range without end or with too many elements, or whose step is 0 or not finite.
    #[error(
        "a range from {start} to {stop} by {step} has no length below 2^31; \
         the numbers must be finite, the step not 0, and the elements fewer"
    )]
    Arange {
        /// First value.
        start: String,
        /// End of the range.
        stop: String,
        /// Step.
        step: String,
    },
    /// A number that is greater than it may be.
    #[error("{what} must be at most {most}, {limit}, not {given}")]
    AtMost {
        /// The parameter.
        what: &'static str,
        /// The most that it may be.
        most: usize,
        /// The meaning of that number.
        limit: &'static str,
        /// The number given.
        given: usize,
    },
    /// A number that the operation cannot work with.
    #[error("{what} must be {must}, not {given}")]
    Parameter {
        /// The parameter.
        what: &'static str,
        /// The requirement.
        must: &'static str,
        /// The value given.
        given: String,
    },
    /// An id of another batch, with the place where that batch was made; `None` if 1024 batches were made since, or another
    /// thread held its entry.
    #[error("{}; use `keep` and `bind` to hand data from batch to batch", of_another_batch(.0.as_ref()))]
    Foreign(Option<Place>),
    /// The function that was to write the data panicked.
    #[error("the function that was to write the data panicked: {0}; write it again")]
    Panicked(String),
    /// An id of another batch, to be downloaded, kept or named, with the place as in [`Foreign`](Self::Foreign).
    #[error("{}; call this on the batch that made it", of_another_batch(.0.as_ref()))]
    Elsewhere(Option<Place>),
    /// A name that another value has.
    #[error("{0} has this name already; give each value a name of its own")]
    NameTaken(Origin),
    /// A second new value for a resident.
    #[error("the batch has a new value for this resident already; update it once a run")]
    UpdatedTwice,
    /// A new value for a resident of another shape.
    #[error(
        "a resident of shape {old} cannot take a value of shape {new}; \
         make it of the shape of the resident, as by `reshape` or `broadcast_to`"
    )]
    Update {
        /// The shape of the resident.
        old: Shape,
        /// The shape of the value.
        new: Shape,
    },
    /// A resident of another device.
    #[error(
        "{of} lives on one device ({device}), and the batch is of another ({batch}): each call of `Device::auto()`, \
         `gpu()` or `cpu()` opens a device of its own; clone one `Device` for both, or upload the data to this batch"
    )]
    ForeignResident {
        /// The resident.
        of: Origin,
        /// The name of its device.
        device: String,
        /// The name of the batch's device.
        batch: String,
    },
    /// A kernel of the user's own that is not valid, or does not fit its inputs. Builds without `gpu` do not check it.
    #[error("{}{what}", line.map_or(String::new(), |line| format!("line {line} of the kernel: ")))]
    Kernel {
        /// The line of the source, counted from 1, where one is to blame.
        line: Option<u32>,
        /// The mistake.
        what: String,
    },
    /// The engine broke a rule of its own.
    #[error("internal: {0}; please report this")]
    Internal(&'static str),
}
