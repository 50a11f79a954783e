//! The parts of a step: operands, outputs, look-ups, borders and joins, and all of them as a form sees them.

use std::ops::Range;

use smallvec::SmallVec;

use super::value::{Value, ValueId};
use crate::base::dtype::{DType, Scalar};
use crate::base::shape::View;
use crate::expr::{Expr, Ref};

/// The space that an operand's view runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// The main space of a map, reduction, row, scan or sort form.
    Main,
    /// The left operand of a product: `batch ++ [m, k]`.
    X,
    /// The right operand of a product: `batch ++ [k, n]`, or `batch` and the axes that k and n are spread over.
    W,
    /// The queries of an attention: `batch ++ [queries, width]`.
    Query,
    /// Its keys: `batch ++ [keys, width]`.
    Key,
    /// Its values: `batch ++ [keys, out]`.
    Value,
    /// Its scores, and the mask that is added to them: `batch ++ [queries, keys]`.
    Scores,
    /// The out space of a reduction (`outer`), product (`batch ++ [m, n]`) or attention (`batch ++ [queries, out]`).
    Out,
    /// No space: the operand is bound as a whole, for [`ExprNode::Fetch`](crate::expr::ExprNode) and
    /// [`ExprNode::Check`](crate::expr::ExprNode).
    Whole,
}

/// The source of one [`ExprNode::Load`](crate::expr::ExprNode), or a value that is bound as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StepOperand {
    pub source: OperandSource,
    pub dtype: DType,
    pub space: Space,
    /// The map from a point of the space to an element.
    pub view: View,
    /// True if the view may point outside the value (where the expression then ignores the loaded element), so that the
    /// index must be clamped to `0..elements`.
    pub clamp: bool,
}

/// The source of a loaded number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OperandSource {
    Value(ValueId),
    /// The view's index itself, as an `i32`: coordinates as numbers.
    Iota,
    /// Any element of a whole value.
    Table(ValueId),
    /// The buffer in which the run's failures are noted.
    Failures,
}

impl OperandSource {
    /// The value that is read.
    pub fn value(self) -> Option<ValueId> {
        match self {
            Self::Value(value) | Self::Table(value) => Some(value),
            Self::Iota | Self::Failures => None,
        }
    }
}

/// A result of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepOutput {
    pub value: ValueId,
    pub dtype: DType,
    /// The expression of one element.
    pub root: Ref,
    /// The map from a point of the out space to an element of the value: a permutation of the
    /// row-major order (which it is for all but row, scan and sort forms over an inner axis).
    pub view: View,
}

/// A fetch of one element of a table at a checked index along one axis: the fact that a gather recorded, beside the
/// expression that computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// The [`ExprNode::Fetch`](crate::expr::ExprNode) of the element.
    pub fetch: Ref,
    /// The operand that is the table.
    pub table: usize,
    /// The operand that counts the position of the element with index 0.
    pub first: usize,
    /// The checked index, an `i32`.
    pub index: Ref,
    /// Elements of the table's memory between neighbours along the axis.
    pub stride: i64,
    /// Elements of the table along the axis; every index is checked to be below.
    pub size: usize,
}

/// An element inside of a border of one number: the fact that a pad recorded, beside the expression that computes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Border {
    /// The expression of the value with its border.
    pub padded: Ref,
    /// The element inside of the border.
    pub element: Ref,
    /// The number around it, by position among the scalars.
    pub number: usize,
    /// The coordinates inside of the border: the operands that count them, and their ranges.
    pub inside: SmallVec<[(usize, Range<i64>); 2]>,
}

impl Border {
    /// The border of the expression `padded`, if it has one.
    pub fn of(borders: &[Self], padded: Ref) -> Option<&Self> {
        borders.iter().find(|border| border.padded == padded)
    }
}

/// An element of values that lie one after the other along an axis: the fact that a concatenation recorded, beside the
/// expression that computes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Join {
    /// The expression of the joined values.
    pub joined: Ref,
    /// The operand that counts the coordinate along the axis.
    pub counter: usize,
    /// The element of each value, and the coordinate at which the value ends: at least two, in ascending order.
    pub values: Vec<(Ref, i64)>,
}

impl Join {
    /// The join that a map only copies: its one output, of values that it loads.
    pub fn copied<'a>(joins: &'a [Self], expr: &Expr, outputs: &[StepOutput]) -> Option<&'a Self> {
        let [output] = outputs else { return None };
        let join = joins.iter().find(|join| join.joined == output.root)?;
        let is_load = |&(value, _): &_| expr.loaded(value).is_some();
        join.values.iter().all(is_load).then_some(join)
    }
}

/// The contents of a step around its form, as the form's methods see them.
#[derive(Clone, Copy)]
pub(crate) struct StepContext<'a> {
    pub expr: &'a Expr,
    pub operands: &'a [StepOperand],
    pub scalars: &'a [Scalar],
    pub outputs: &'a [StepOutput],
    pub lookups: &'a [Lookup],
    pub borders: &'a [Border],
    pub joins: &'a [Join],
    /// The values that operands and outputs refer to.
    pub values: &'a [Value],
}

impl StepContext<'_> {
    /// The roots of all outputs.
    pub fn roots(&self) -> SmallVec<[Ref; 2]> {
        self.outputs.iter().map(|output| output.root).collect()
    }

    /// The operands that `roots` load, in ascending order.
    pub fn operands_of(&self, roots: &[Ref]) -> Vec<usize> {
        let mut operands = self.expr.loads(roots);
        operands.sort_unstable();
        operands
    }

    /// Elements of the value that `operand` reads; none if it reads no value.
    pub fn elements(&self, operand: usize) -> Option<usize> {
        let value = self.operands[operand].source.value()?;
        Some(self.values[value.index()].shape.elements())
    }
}
