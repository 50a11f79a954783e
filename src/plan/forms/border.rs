//! Values with a border of one number, as expressions.

use std::ops::Range;

use crate::base::dtype::Scalar;
use crate::expr::{Binary, Expr, ExprNode, Ref};

/// An element of a value with a border.
pub(crate) struct Bordered {
    /// The element inside of the border.
    pub element: Ref,
    /// The number around; `None` if there is no border.
    pub border: Option<Ref>,
    /// The coordinates inside of the border: the operands that count them, and their ranges.
    pub inside: Vec<(usize, Range<i64>)>,
}

impl Bordered {
    /// The expression `padded` as an element with borders.
    pub fn of(expr: &Expr, scalars: &[Scalar], padded: Ref) -> Self {
        let number = |r: Ref| match expr.node(r) {
            ExprNode::Scalar(at) => Some(scalars[usize::from(at)].value() as i64),
            _ => None,
        };
        let range = |condition: Ref| {
            let ExprNode::Binary(Binary::And, from, to) = expr.node(condition) else { return None };
            let (ExprNode::Binary(Binary::Ge, at, start), ExprNode::Binary(Binary::Lt, same, end)) =
                (expr.node(from), expr.node(to))
            else {
                return None;
            };
            match expr.node(at) {
                ExprNode::Load(operand) if at == same => {
                    Some((usize::from(operand), number(start)?..number(end)?))
                }
                _ => None,
            }
        };
        let (mut element, mut border, mut inside) = (padded, None, Vec::new());
        while let ExprNode::Select(condition, within, around) = expr.node(element)
            && matches!(expr.node(around), ExprNode::Scalar(_))
            && border.is_none_or(|border| border == around)
            && let Some(range) = range(condition)
        {
            (element, border) = (within, Some(around));
            inside.push(range);
        }
        Self { element, border, inside }
    }
}
