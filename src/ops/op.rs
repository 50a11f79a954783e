//! A recorded operation, and the type of a value.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::attention::Scores;
use super::custom_kernel::CustomKernel;
use super::elementwise::Elementwise;
use super::matmul::Precision;
use super::random::Random;
use super::reduce::Reduction;
use super::row::Normalization;
use super::scan::Scan;
use super::sort::{SearchSide, Sort, Sorted};
use crate::base::dtype::{DType, Scalar};
use crate::base::shape::{Move, Shape};

/// One recorded operation, without its inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// Stands where a mistake was made: its users keep silent about it.
    Invalid,
    /// Data given by the user, by position.
    Upload(u32),
    /// Data that lives on the device, by position.
    Resident(u32),
    /// One value everywhere.
    Full(Scalar),
    /// start + i·step along the only axis.
    Arange {
        start: Scalar,
        step: Scalar,
    },
    /// Random numbers, by position.
    Random(Random),
    Elementwise(Elementwise, SmallVec<[Scalar; 2]>),
    /// Inputs: condition, where true, where false.
    Select,
    Cast(DType),
    /// Over `axes` (ascending), which stay as size 1 where `keep` holds.
    Reduce {
        op: Reduction,
        axes: SmallVec<[usize; 4]>,
        keep: bool,
    },
    Row {
        op: Normalization,
        axis: usize,
    },
    Scan {
        op: Scan,
        axis: usize,
    },
    /// One of the results of a sort. Both together are one kernel.
    Sort {
        how: Sort,
        part: Sorted,
    },
    MatMul(Precision),
    /// Inputs: queries, keys, values, and perhaps a mask to add to the scores.
    Attention(Scores),
    /// Another view of the same values; `name` is the method that the user called.
    Move {
        name: &'static str,
        to: Move,
    },
    /// `before` and `after` elements of `value` along each axis.
    Pad {
        before: SmallVec<[usize; 4]>,
        after: SmallVec<[usize; 4]>,
        value: Scalar,
    },
    Concat {
        axis: usize,
    },
    /// A kernel of the user's own.
    Custom(Arc<CustomKernel>),
    /// Inputs: table, indices. The shape of the indices in place of the table's axis; `name` is the method that the
    /// user called.
    Gather {
        name: &'static str,
        axis: usize,
    },
    /// Inputs: ascending numbers, numbers. Where each of these would go among those.
    SearchSorted {
        side: SearchSide,
    },
    /// Inputs: table, indices. An index an element, along the axis; `name` is the method that the user called.
    TakeAlong {
        name: &'static str,
        axis: usize,
    },
    /// The indices along `axis`, or classes where there is none, as they are: each must be below `size`. Those that are
    /// `ignored` become 0. `name` is the method that the user called.
    InRange {
        name: &'static str,
        axis: Option<usize>,
        size: usize,
        ignored: Option<Scalar>,
    },
}

impl Op {
    /// The operation's name, as the method that records it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Upload(_) => "upload",
            Self::Resident(_) => "resident",
            Self::Full(_) => "full",
            Self::Arange { .. } => "arange",
            Self::Random(random) => random.name(),
            Self::Elementwise(op, _) => op.def().name,
            Self::Select => "select",
            Self::Cast(_) => "cast",
            Self::Reduce { op, .. } => op.def().name,
            Self::Row { op, .. } => op.kind().def().name,
            Self::Scan { op, .. } => op.def().name,
            Self::Sort { how, part } => how.name(*part),
            Self::MatMul(_) => "matmul",
            Self::Attention(_) => "scaled_dot_product_attention",
            Self::Move { name, .. } => name,
            Self::Pad { .. } => "pad",
            Self::Concat { .. } => "concat",
            Self::Gather { name, .. } | Self::TakeAlong { name, .. } => name,
            Self::InRange { name, .. } => name,
            Self::SearchSorted { .. } => "searchsorted",
            Self::Custom(_) => "wgsl",
        }
    }

    /// The axis along which the operation makes a row of each row.
    pub fn row_axis(&self) -> Option<usize> {
        match self {
            Self::Row { axis, .. } | Self::Scan { axis, .. } => Some(*axis),
            Self::Sort { how, .. } => Some(how.axis),
            _ => None,
        }
    }

    /// True if the type of the result is given, not inferred from operands.
    pub fn states_its_type(&self) -> bool {
        let made = matches!(self, Self::Full(_) | Self::Arange { .. } | Self::Random(_));
        made || self.is_source() || matches!(self, Self::Invalid | Self::Custom(_))
    }

    /// True if the values come from outside the graph.
    pub fn is_source(&self) -> bool {
        matches!(self, Self::Upload(_) | Self::Resident(_))
    }
}

/// A value's element type and shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Type {
    pub dtype: DType,
    pub shape: Shape,
}

impl Type {
    /// Bytes of the elements; `u64::MAX` if they are more than a number counts.
    pub fn bytes(&self) -> u64 {
        self.shape.elements().saturating_mul(self.dtype.size()) as u64
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}
