//! Fetches from tables at positions of which a part is the same within a stretch.

use super::{Broadcast, Compiler};
use crate::base::dtype::Ty;
use crate::exec::cpu::tape::{Arg, TapeOp};
use crate::expr::{Binary, ExprNode, Ref};

/// A fetch of elements that lie at equal distances within each stretch.
pub(super) struct FetchOfStretches {
    table: u16,
    /// The position of an element is the sum of this node, which has one value a stretch, and of the operand `counter`.
    pub(super) base: Ref,
    counter: u16,
    stride: i64,
}

impl Compiler<'_> {
    /// Returns `node` as a fetch of stretches, if it is one.
    pub(super) fn fetch_of_stretches(&self, node: ExprNode) -> Option<FetchOfStretches> {
        let ExprNode::Fetch(table, at) = node else { return None };
        let ExprNode::Binary(Binary::Add, x, y) = self.expr.node(at) else { return None };
        let counter = |r: Ref| match self.expr.node(r) {
            // A fetch at a position that is the same within each stretch is computed once a stretch.
            ExprNode::Load(n) if self.broadcast[r.index()] != Broadcast::Inner => {
                let input = self.inputs[usize::from(n)].as_ref()?;
                Some((n, input.stride_in_stretches(self.inner.len)?))
            }
            _ => None,
        };
        let is_inner = |r: Ref| self.broadcast[r.index()] == Broadcast::Inner;
        let (base, (counter, stride)) =
            if is_inner(x) { (x, counter(y)?) } else { (y, counter(x).filter(|_| is_inner(y))?) };
        Some(FetchOfStretches { table, base, counter, stride })
    }

    /// The table and the parts of the position of `node`, if it is a fetch at the sum of a value by stretch and one by
    /// column.
    pub(super) fn shifted(&self, node: ExprNode) -> Option<(u16, Ref, Ref)> {
        /// Fewest elements of a stretch that are fetched at once.
        const LONG_STRETCH: usize = 32;
        let ExprNode::Fetch(table, at) = node else { return None };
        let ExprNode::Binary(Binary::Add, x, y) = self.expr.node(at) else { return None };
        match [x, y].map(|r| self.broadcast[r.index()]) {
            _ if self.inner.len < LONG_STRETCH => None,
            [Broadcast::Inner, Broadcast::Outer] => Some((table, x, y)),
            [Broadcast::Outer, Broadcast::Inner] => Some((table, y, x)),
            _ => None,
        }
    }

    pub(super) fn shifted_fetch(&self, node: ExprNode) -> Option<TapeOp> {
        let (table, base, column) = self.shifted(node)?;
        let Arg::Register(base) = self.stretch_arg(base) else { return None };
        Some(TapeOp::FetchShifted(table, base, self.args[column.index()]))
    }

    pub(super) fn stretch_fetch(&mut self, fetch: &FetchOfStretches) -> TapeOp {
        let &FetchOfStretches { table, base, counter, stride } = fetch;
        let start = Arg::Register(self.stretch_instruction(TapeOp::Load(counter)));
        let sum = TapeOp::Binary(Binary::Add, Ty::I32, self.stretch_arg(base), start);
        TapeOp::FetchStretches(table, self.stretch_instruction(sum), stride)
    }
}
