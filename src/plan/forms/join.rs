//! Values joined along an axis, as expressions.

use crate::base::dtype::Scalar;
use crate::expr::{Binary, Expr, ExprNode, Ref};

/// An element of values that lie one after the other along an axis.
pub(crate) struct Joined {
    /// The operand that counts the coordinate along the axis.
    pub counter: usize,
    /// The element of each value but the last, and the coordinate at which the next value begins, in ascending order.
    pub values: Vec<(Ref, i64)>,
    /// The element of the last value.
    pub last: Ref,
}

impl Joined {
    /// The expression `root` as an element of joined values, if it is one of at least two that are loaded.
    pub fn of(expr: &Expr, scalars: &[Scalar], root: Ref) -> Option<Self> {
        let is_load = |r: Ref| matches!(expr.node(r), ExprNode::Load(_));
        let (mut values, mut last, mut counter): (Vec<(Ref, i64)>, Ref, _) =
            (Vec::new(), root, None);
        // Each choice takes one value where the coordinate is below a bound, and else one of the later values.
        while let ExprNode::Select(condition, value, later) = expr.node(last) {
            let ExprNode::Binary(Binary::Lt, at, bound) = expr.node(condition) else { return None };
            let (ExprNode::Load(at), ExprNode::Scalar(bound)) = (expr.node(at), expr.node(bound))
            else {
                return None;
            };
            let bound = scalars[usize::from(bound)].value() as i64;
            let rises = values.last().is_none_or(|&(_, before)| before <= bound);
            if !rises || !is_load(value) || counter.is_some_and(|known| known != at) {
                return None;
            }
            values.push((value, bound));
            (last, counter) = (later, Some(at));
        }
        let counter = usize::from(counter.filter(|_| is_load(last))?);
        Some(Self { counter, values, last })
    }
}
