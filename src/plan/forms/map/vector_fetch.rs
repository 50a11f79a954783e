//! Look-ups of four neighbours at once. The elements for the lanes of a quad may be neighbours, as in the rows of a
//! table. Their position is then computed once, and they are loaded as a vector.

use super::space::MapSpace;
use crate::base::dtype::Ty;
use crate::expr::{Binary, Const, ExprNode, Failure, Ref};
use crate::plan::step_parts::{OperandSource, StepContext, StepOperand};

/// A fetch of four neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct VectorFetch {
    /// The [`ExprNode::Fetch`] of an element.
    pub fetch: Ref,
    /// The operand that is fetched from.
    pub table: usize,
    /// The position of the first lane.
    pub position: Ref,
}

impl VectorFetch {
    /// Fetches of a map, at most.
    pub const MOST: usize = 4;

    /// All fetches of four neighbours. `space` has a last axis of whole quads.
    pub fn find(space: &MapSpace, context: &StepContext<'_>) -> Vec<Self> {
        let fetches = context.expr.reachable(&context.roots()).into_iter().filter_map(|fetch| {
            let ExprNode::Fetch(table, position) = context.expr.node(fetch) else { return None };
            Some(Self { fetch, table: table.into(), position })
        });
        fetches.filter(|fetch| fetch.is_of_neighbours(space, context)).take(Self::MOST).collect()
    }

    fn is_of_neighbours(&self, space: &MapSpace, context: &StepContext<'_>) -> bool {
        let source = context.operands[self.table].source;
        let by_lane = context
            .operands
            .iter()
            .any(|operand| operand.source != source && operand.source.value() == source.value());
        let is_empty = context.operands[self.table].view.dims.contains(&0);
        !by_lane && !is_empty && (Walk { context, space }).along(self.position) == Along::Ones
    }
}

/// The change of a number from lane to lane of a quad.
#[derive(Clone, Copy, PartialEq)]
enum Along {
    /// It stays the same; `fours` if it is a multiple of four.
    Same {
        fours: bool,
    },
    /// It grows by ones, from a multiple of four on.
    Ones,
    Otherwise,
}

struct Walk<'a> {
    context: &'a StepContext<'a>,
    space: &'a MapSpace,
}

impl Walk<'_> {
    fn along(&self, r: Ref) -> Along {
        let same = |value: Ref| matches!(self.along(value), Along::Same { .. });
        let when =
            |holds: bool| if holds { Along::Same { fours: false } } else { Along::Otherwise };
        match self.context.expr.node(r) {
            ExprNode::Load(operand) => self.load(operand.into()),
            ExprNode::Scalar(n) => {
                let scalar = self.context.scalars[usize::from(n)];
                let fours = !scalar.dtype().is_float() && scalar.lane_bits().is_multiple_of(4);
                Along::Same { fours }
            }
            ExprNode::Const(Const { ty, bits }) => {
                Along::Same { fours: ty != Ty::F32 && bits.is_multiple_of(4) }
            }
            ExprNode::Binary(Binary::Add, x, y) => match (self.along(x), self.along(y)) {
                (Along::Same { fours: a }, Along::Same { fours: b }) => {
                    Along::Same { fours: a & b }
                }
                (Along::Ones, Along::Same { fours: true })
                | (Along::Same { fours: true }, Along::Ones) => Along::Ones,
                _ => Along::Otherwise,
            },
            ExprNode::Binary(Binary::Mul, x, y) => match (self.along(x), self.along(y)) {
                (Along::Same { fours: a }, Along::Same { fours: b }) => {
                    Along::Same { fours: a | b }
                }
                _ => Along::Otherwise,
            },
            ExprNode::Check(_, Failure { holds, site, at }) => {
                when([holds, site, at].into_iter().all(same))
            }
            node => when(node.operands().all(same)),
        }
    }

    fn load(&self, operand: usize) -> Along {
        let StepOperand { source, view, .. } = &self.context.operands[operand];
        let strides = &self.space.axes.strides[self.space.map_of(operand)];
        let Some((lane, others)) = strides.split_last() else { return Along::Otherwise };
        let counts = *source == OperandSource::Iota;
        let fours = counts && view.offset % 4 == 0 && others.iter().all(|stride| stride % 4 == 0);
        match lane {
            0 => Along::Same { fours },
            1 if fours => Along::Ones,
            _ => Along::Otherwise,
        }
    }
}
