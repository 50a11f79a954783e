//! Sorts: the elements along one axis in order.

use std::ops::Range;

use crate::base::dtype::DType;
use crate::base::shape::Shape;

/// The order of the elements of a sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SortOrder {
    /// The least; NaN last.
    #[default]
    Ascending,
    /// The greatest; NaN first.
    Descending,
}

/// The place of a number among its equals, as in NumPy's `searchsorted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SearchSide {
    /// Before them.
    #[default]
    Left,
    /// After them.
    Right,
}

/// An order of the elements along an axis. It is stable: equal elements keep their order. NaN is past all numbers, and
/// −0 equals 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sort {
    pub axis: usize,
    pub order: SortOrder,
    /// The number of first elements that are wanted; `None` for all.
    pub top: Option<usize>,
}

/// The result of a sort that a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sorted {
    /// The elements; −0 becomes 0.
    Values,
    /// Their positions along the axis.
    Positions,
}

impl Sort {
    pub fn name(self, part: Sorted) -> &'static str {
        match (self.top, part) {
            (Some(_), _) => "top_k",
            (None, Sorted::Values) => "sort",
            (None, Sorted::Positions) => "argsort",
        }
    }

    /// The shape of the results for an argument of `shape`.
    pub fn shape(self, shape: &Shape) -> Shape {
        let kept = |(axis, &dim): (usize, &usize)| match self.top {
            Some(top) if axis == self.axis => top.min(dim),
            _ => dim,
        };
        shape.dims().iter().enumerate().map(kept).collect()
    }
}

impl Sorted {
    /// The element type of the result for arguments of `dtype`.
    pub fn result(self, dtype: DType) -> DType {
        match self {
            Self::Values => dtype,
            Self::Positions => DType::U32,
        }
    }
}

/// The bits in which keys of elements of `dtype` differ: their 32-bit forms, in an order of unsigned numbers.
pub(crate) fn key_bits(dtype: DType) -> Range<u32> {
    match dtype {
        DType::F32 | DType::I32 | DType::U32 => 0..32,
        // As an `f32`, whose last 13 bits of the mantissa are not needed.
        DType::F16 => 13..32,
        DType::Bool => 0..1,
    }
}
