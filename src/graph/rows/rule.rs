//! The rule of each operation: where the rows of its result are, if those of its operands are known.

use super::reasons::{
    AFTER_REDUCTION, ALONG, DIFFERENT_AXES, JOINS, KERNEL, KEYS_DEPEND_ON_ROWS, PADS,
    READ_BESIDE_ROWS, REDUCES, RowsReason, SEARCHES, SHARED_INDICES, SPLITS, TABLE, TAKES_SOME,
    WALKS_ALONG,
};
use super::trace::{Mixing, RowAxis, RowReduction, RowTrace, Traces, Untraced};
use crate::base::shape::Move;
use crate::graph::{Graph, Node, NodeId};
use crate::ops::{Elementwise, MatMulDims, Op, Reduction};

type Traced<T = RowTrace> = Result<T, Untraced>;

/// One node with the traces of its operands.
pub(super) struct TracedNode<'a> {
    pub graph: &'a Graph,
    pub traces: &'a Traces,
    pub rows: usize,
    pub id: NodeId,
}

impl TracedNode<'_> {
    pub fn trace(&self) -> Traced {
        let node = self.node();
        let traces = node.inputs.iter().map(|&input| self.of(input));
        if let Some(reduced) = traces.clone().find(|of| matches!(of, RowTrace::Reduced(..))) {
            return self.after_reduction(reduced);
        }
        if traces.clone().all(|of| of == RowTrace::Fixed) {
            return Ok(RowTrace::Fixed);
        }
        let axis = match &node.op {
            Op::Elementwise(..) | Op::Select => self.aligned()?,
            Op::Cast(_) | Op::InRange { .. } => self.first()?,
            Op::Reduce { op, axes, keep } => return self.reduce(*op, axes, *keep),
            Op::Row { .. } | Op::Scan { .. } | Op::Sort { .. } => {
                self.unless(ALONG, self.first()?, |rows| node.op.row_axis() == Some(rows.axis))?
            }
            Op::MatMul(_) => return self.product(),
            Op::Attention(scores) => self.attention(scores.causal.is_some())?,
            Op::Move { to, .. } => self.moved(to)?,
            Op::Pad { before, after, .. } => {
                self.unless(PADS, self.first()?, |rows| before[rows.axis] + after[rows.axis] > 0)?
            }
            Op::Concat { axis } => self.joined(*axis)?,
            Op::Gather { axis, .. } => self.gathered(*axis)?,
            Op::TakeAlong { axis, .. } => self.taken(*axis)?,
            Op::SearchSorted { .. } => match self.of(node.inputs[1]) {
                RowTrace::Each(rows) if self.of(node.inputs[0]) == RowTrace::Fixed => rows,
                _ => return self.mixes(SEARCHES),
            },
            Op::Custom(_) => return self.mixes(KERNEL),
            Op::Invalid
            | Op::Upload(_)
            | Op::Resident(_)
            | Op::Full(_)
            | Op::Arange { .. }
            | Op::Random(_) => return Ok(RowTrace::Fixed),
        };
        Ok(RowTrace::Each(axis))
    }

    fn node(&self) -> &Node {
        &self.graph[self.id]
    }

    fn of(&self, id: NodeId) -> RowTrace {
        self.traces.get(id).copied().unwrap_or(RowTrace::Fixed)
    }

    fn rank(&self, id: NodeId) -> usize {
        self.graph[id].ty.shape.rank()
    }

    fn mixes<T>(&self, reason: RowsReason) -> Traced<T> {
        Err(Untraced::Mixes(Mixing::Rows { node: self.id, reason }))
    }

    /// The rows of the first operand.
    fn first(&self) -> Traced<RowAxis> {
        match self.of(self.node().inputs[0]) {
            RowTrace::Each(rows) => Ok(rows),
            _ => self.mixes(ALONG),
        }
    }

    fn unless(
        &self,
        reason: RowsReason,
        rows: RowAxis,
        mixes: impl Fn(RowAxis) -> bool,
    ) -> Traced<RowAxis> {
        if mixes(rows) { self.mixes(reason) } else { Ok(rows) }
    }

    /// The rows of operands that are aligned at their last axes with the result.
    fn aligned(&self) -> Traced<RowAxis> {
        let (node, rank) = (self.node(), self.node().ty.shape.rank());
        self.common(node.inputs.iter().map(|&input| (input, rank - self.rank(input))))
    }

    /// The rows that operands have in common, of which each is shifted by so many axes in the result.
    fn common(&self, operands: impl Iterator<Item = (NodeId, usize)> + Clone) -> Traced<RowAxis> {
        let mut found: Option<RowAxis> = None;
        for (id, shift) in operands.clone() {
            let RowTrace::Each(rows) = self.of(id) else { continue };
            let here = RowAxis { axis: rows.axis + shift, ..rows };
            if found.is_some_and(|found| found != here) {
                return self.mixes(DIFFERENT_AXES);
            }
            found = Some(here);
        }
        let Some(rows) = found else { return self.mixes(ALONG) };
        for (id, shift) in operands {
            let Some(axis) = rows.axis.checked_sub(shift) else { continue };
            if self.of(id) == RowTrace::Fixed && self.graph[id].ty.shape[axis] != 1 {
                return Err(Untraced::Long(id, RowAxis { axis, ..rows }));
            }
        }
        Ok(rows)
    }

    fn reduce(&self, op: Reduction, axes: &[usize], keep: bool) -> Traced {
        let rows = self.first()?;
        if axes.contains(&rows.axis) {
            return match reduction(op) {
                Some(by) => Ok(RowTrace::Reduced(by, self.id)),
                None => self.mixes(REDUCES),
            };
        }
        let gone = if keep { 0 } else { axes.iter().filter(|&&axis| axis < rows.axis).count() };
        Ok(RowTrace::Each(RowAxis { axis: rows.axis - gone, ..rows }))
    }

    /// The trace of an operation on a reduction over rows, if its results can still be joined.
    fn after_reduction(&self, reduced: RowTrace) -> Traced {
        let node = self.node();
        let RowTrace::Reduced(by, reducing) = reduced else { return Ok(reduced) };
        let others = || node.inputs.iter().map(|&input| self.of(input)).filter(|&of| of != reduced);
        if others().any(|of| of != RowTrace::Fixed)
            || node.inputs.iter().filter(|&&input| self.of(input) == reduced).count() > 1
        {
            return Err(Untraced::Mixes(Mixing::Rows { node: reducing, reason: READ_BESIDE_ROWS }));
        }
        let linear = matches!(by, RowReduction::Sum | RowReduction::Mean);
        let floats = node.ty.dtype.is_float();
        let joins = match &node.op {
            Op::Move { .. } => true,
            Op::Cast(_) => floats && self.graph[node.inputs[0]].ty.dtype.is_float(),
            Op::Reduce { op, .. } => match reduction(*op) {
                Some(RowReduction::Sum | RowReduction::Mean) => linear,
                other => other == Some(by),
            },
            Op::Elementwise(Elementwise::Neg | Elementwise::Scale | Elementwise::Mul, _) => linear,
            Op::Elementwise(Elementwise::Div, _) => {
                linear && floats && self.of(node.inputs[0]) == reduced
            }
            _ => false,
        };
        if joins { Ok(reduced) } else { self.mixes(AFTER_REDUCTION) }
    }

    fn product(&self) -> Traced {
        let [x, w] = [self.node().inputs[0], self.node().inputs[1]];
        let (rx, rw) = (self.rank(x), self.rank(w));
        let Ok(dims) = MatMulDims::of(&self.graph[x].ty.shape, &self.graph[w].ty.shape) else {
            return self.mixes(ALONG);
        };
        let role = |id, side: usize, summed: usize| match self.of(id) {
            RowTrace::Each(rows) if rows.axis == summed => Some((OperandAxis::Summed, rows)),
            RowTrace::Each(rows) if rows.axis == side => Some((OperandAxis::Side, rows)),
            RowTrace::Each(rows) => Some((OperandAxis::Batch, rows)),
            _ => None,
        };
        let at_x = role(x, rx.wrapping_sub(2), rx - 1);
        let at_w = if dims.vector_w { role(w, usize::MAX, 0) } else { role(w, rw - 1, rw - 2) };
        let rank = self.node().ty.shape.rank();
        let along = |rows: RowAxis, axis| RowAxis { axis, ..rows };
        Ok(RowTrace::Each(match (at_x, at_w) {
            (Some((OperandAxis::Summed, a)), Some((OperandAxis::Summed, b)))
                if a.inner == b.inner =>
            {
                return Ok(RowTrace::Reduced(RowReduction::Sum, self.id));
            }
            (Some((OperandAxis::Summed, rows)), None) => {
                let axis = if dims.vector_w { 0 } else { rw - 2 };
                return Err(Untraced::Long(w, along(rows, axis)));
            }
            (None, Some((OperandAxis::Summed, rows))) => {
                return Err(Untraced::Long(x, along(rows, rx - 1)));
            }
            (Some((OperandAxis::Side, rows)), None) => {
                along(rows, rank - if dims.vector_w { 1 } else { 2 })
            }
            (None, Some((OperandAxis::Side, rows))) => along(rows, rank - 1),
            (Some((OperandAxis::Batch, _)) | None, Some((OperandAxis::Batch, _)) | None) => {
                let batch = dims.batch.rank();
                let shifts = [(x, rx.saturating_sub(2)), (w, rw.saturating_sub(2))];
                self.common(shifts.into_iter().map(|(id, own)| (id, batch - own)))?
            }
            _ => return self.mixes(DIFFERENT_AXES),
        }))
    }

    fn attention(&self, is_causal: bool) -> Traced<RowAxis> {
        let (inputs, rank) = (&self.node().inputs, self.node().ty.shape.rank());
        let in_batch = |&id: &NodeId| !matches!(self.axis_from_end(id), 1 | 2);
        if inputs.iter().all(in_batch) {
            return self.aligned();
        }
        let of_queries = |&id: &NodeId| matches!(self.axis_from_end(id), 0 | 2);
        let keys_fixed = inputs[1..3].iter().all(|&id| self.of(id) == RowTrace::Fixed);
        let with_rows = [Some(&inputs[0]), inputs.get(3)].into_iter().flatten();
        if is_causal || !keys_fixed || !with_rows.clone().all(of_queries) {
            return self.mixes(KEYS_DEPEND_ON_ROWS);
        }
        self.common(with_rows.map(|&id| (id, rank - self.rank(id))))
    }

    /// The axis of rows, counted from the last axis, which is 1; 0 for an operand without rows.
    fn axis_from_end(&self, id: NodeId) -> usize {
        match self.of(id) {
            RowTrace::Each(rows) => self.rank(id) - rows.axis,
            _ => 0,
        }
    }

    fn moved(&self, to: &Move) -> Traced<RowAxis> {
        let rows = self.first()?;
        let from = &self.graph[self.node().inputs[0]].ty.shape;
        let axis = match to {
            Move::Reshape(to) => {
                return match rows.reshaped(from, to, self.rows) {
                    Some(rows) => Ok(rows),
                    None => self.mixes(SPLITS),
                };
            }
            Move::Permute(axes) => axes.iter().position(|&axis| axis == rows.axis),
            Move::Broadcast(to) => Some(rows.axis + to.rank() - from.rank()),
            Move::Slice(ranges) => {
                let (range, block) = (ranges[rows.axis], (rows.inner * self.rows) as i64);
                let whole = range.step == 1
                    && range.count > 0
                    && range.start % block == 0
                    && range.count as i64 % block == 0;
                whole.then_some(rows.axis)
            }
            Move::Window { axis, .. } if *axis == rows.axis => None,
            Move::Window { axis, .. } => Some(rows.axis + usize::from(rows.axis > *axis)),
        };
        match axis {
            Some(axis) => Ok(RowAxis { axis, ..rows }),
            None if self.is_step_of_sequence() => self.mixes(WALKS_ALONG),
            None => self.mixes(TAKES_SOME),
        }
    }

    /// True if a recurrent layer takes a step here from a sequence that was given to it with rows along the first axis.
    fn is_step_of_sequence(&self) -> bool {
        let node = self.node();
        let is_of_layer = |id: NodeId| {
            let other = &self.graph[id];
            other.name == node.name && other.place == node.place
        };
        // The layer slices what its product made of the sequence; it slices the states as they were given.
        let mut from = node.inputs[0];
        if !matches!(node.name, "gru" | "lstm") || !is_of_layer(from) {
            return false;
        }
        while let Some(&before) = self.graph[from].inputs.first().filter(|_| is_of_layer(from)) {
            from = before;
        }
        matches!(self.of(from), RowTrace::Each(rows) if rows.axis == 0)
    }

    fn joined(&self, axis: usize) -> Traced<RowAxis> {
        let node = self.node();
        let mut each = node.inputs.iter().map(|&input| self.of(input));
        let first = each.clone().find(|of| *of != RowTrace::Fixed);
        match first {
            Some(RowTrace::Each(rows)) if rows.axis == axis => {
                if each.all(|of| of == RowTrace::Each(rows)) { Ok(rows) } else { self.mixes(JOINS) }
            }
            _ => self.common(node.inputs.iter().map(|&input| (input, 0))),
        }
    }

    fn gathered(&self, axis: usize) -> Traced<RowAxis> {
        let [table, indices] = [self.node().inputs[0], self.node().inputs[1]];
        match (self.of(table), self.of(indices)) {
            (RowTrace::Fixed, RowTrace::Each(rows)) => {
                Ok(RowAxis { axis: rows.axis + axis, ..rows })
            }
            (RowTrace::Each(rows), RowTrace::Fixed) if rows.axis < axis => Ok(rows),
            (RowTrace::Each(rows), RowTrace::Fixed) if rows.axis > axis => {
                Ok(RowAxis { axis: rows.axis - 1 + self.rank(indices), ..rows })
            }
            (RowTrace::Each(rows), RowTrace::Fixed) if rows.axis == axis => self.mixes(TAKES_SOME),
            (RowTrace::Each(rows), RowTrace::Each(_)) if rows.axis != axis => {
                self.mixes(SHARED_INDICES)
            }
            _ => self.mixes(TABLE),
        }
    }

    fn taken(&self, axis: usize) -> Traced<RowAxis> {
        let [table, indices] = [self.node().inputs[0], self.node().inputs[1]];
        match (self.of(table), self.of(indices)) {
            (RowTrace::Fixed, RowTrace::Each(rows)) if rows.axis == axis => Ok(rows),
            (RowTrace::Each(rows), RowTrace::Fixed) if rows.axis == axis => self.mixes(TAKES_SOME),
            _ => {
                let rows = self.aligned()?;
                self.unless(TABLE, rows, |rows| rows.axis == axis)
            }
        }
    }
}

/// The axes of an operand of a product.
enum OperandAxis {
    Batch,
    /// The rows of x or the columns of w.
    Side,
    /// The axis that is summed over.
    Summed,
}

fn reduction(op: Reduction) -> Option<RowReduction> {
    match op {
        Reduction::Sum => Some(RowReduction::Sum),
        Reduction::Mean => Some(RowReduction::Mean),
        Reduction::Max => Some(RowReduction::Max),
        Reduction::Min => Some(RowReduction::Min),
        Reduction::Prod
        | Reduction::Argmax
        | Reduction::Argmin
        | Reduction::Any
        | Reduction::All
        | Reduction::LogSumExp
        | Reduction::Norm => None,
    }
}
