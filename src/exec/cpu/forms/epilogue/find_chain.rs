//! The search for an epilogue that is a chain of operations.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

use crate::base::dtype::{DType, Ty};
use crate::exec::cpu::StepJob;
use crate::exec::cpu::chain::{Chain, LinkOperand, LinkTable};
use crate::exec::cpu::operands::BoundInput;
use crate::exec::cpu::tape::Tape;
use crate::exec::cpu::vectors::links::Link;
use crate::expr::{ExprNode, Ref};
use crate::plan::{Space, StepOutput};

/// Least elements of a stretch or a row whose values are computed once.
const SHORTEST: usize = 16;

/// An operation that follows a sum: its second operand is `other`.
type FoundLink = (Link, Ref);

/// The chain of operations that follows each sum of `job`; `None` if the epilogue is something else.
pub(super) fn find(job: &StepJob<'_>, inputs: &[Option<BoundInput<'_>>]) -> Option<Chain> {
    let [StepOutput { root, dtype: DType::F32, .. }] = job.step.outputs[..] else { return None };
    let links = links(job, root)?;
    let (mut stretches, mut columns) = (OperandTable::default(), OperandTable::default());
    let mut found = SmallVec::new();
    for (op, other) in links {
        let operand = match job.step.expr.node(other) {
            ExprNode::Const(number) => LinkOperand::Constant(f32::from_bits(number.bits)),
            ExprNode::Scalar(at) => {
                let bits = job.step.scalars[usize::from(at)].lane_bits();
                LinkOperand::Constant(f32::from_bits(bits))
            }
            ExprNode::Load(at)
                if matches!(inputs[usize::from(at)], Some(BoundInput::Memory(_))) =>
            {
                LinkOperand::Memory(at)
            }
            _ => {
                let (dims, own) = strided_axes(job, other)?;
                let (before, after) = (own.start, dims.len() - own.end);
                let product = |axes: Range<usize>| dims[axes].iter().product::<usize>();
                if after > 0 && product(own.end..dims.len()) >= SHORTEST {
                    LinkOperand::Stretch(stretches.push(other, 0..own.end, dims))
                } else if before > 0 && product(own.start..dims.len()) >= SHORTEST {
                    LinkOperand::Column(columns.push(other, own.start..dims.len(), dims))
                } else {
                    return None;
                }
            }
        };
        found.push((op, operand));
    }
    let (stretch, row) = (stretches.after(), columns.len());
    (stretch.min(row) >= SHORTEST).then(|| Chain {
        links: found,
        stretch,
        row,
        of_stretches: stretches.table(job),
        of_columns: columns.table(job),
    })
}

/// The operations between the sum and `root`, each with its other operand, if there are any.
fn links(job: &StepJob<'_>, root: Ref) -> Option<SmallVec<[FoundLink; 4]>> {
    let expr = &job.step.expr;
    let mut follows = vec![false; expr.len()];
    for r in expr.reachable(&[root]) {
        follows[r.index()] = match expr.node(r) {
            ExprNode::Acc => true,
            ExprNode::Fetch(..) | ExprNode::Check(..) => return None,
            node => node.operands().any(|operand| follows[operand.index()]),
        };
    }
    let (mut links, mut at) = (SmallVec::new(), root);
    while expr.node(at) != ExprNode::Acc {
        let ExprNode::Binary(op, x, y) = expr.node(at) else { return None };
        let from_sum = [x, y].map(|r| follows[r.index()]);
        let (next, other) = match from_sum {
            [true, false] => (x, y),
            [false, true] => (y, x),
            _ => return None,
        };
        if expr.ty(at) != Ty::F32 || expr.ty(x) != Ty::F32 {
            return None;
        }
        links.push((Link::of(op, from_sum[0])?, other));
        at = next;
    }
    links.reverse();
    (!links.is_empty()).then_some(links)
}

/// The dimensions of the out space, and the axes from the first to the last along which an operand of `root` has a stride
/// other than 0: the others are broadcast.
fn strided_axes<'a>(job: &StepJob<'a>, root: Ref) -> Option<(&'a [usize], Range<usize>)> {
    let loads = job.step.expr.loads(&[root]);
    let operands = loads.iter().map(|&at| &job.step.operands[at]);
    let mut space: Option<(&[usize], Range<usize>)> = None;
    for operand in operands {
        if operand.space != Space::Out {
            return None;
        }
        let (dims, strides) = (&operand.view.dims[..], &operand.view.strides);
        let is_strided = |axis: &usize| dims[*axis] > 1 && strides[*axis] != 0;
        let first = (0..dims.len()).find(is_strided).unwrap_or(dims.len());
        let end = (0..dims.len()).rev().find(is_strided).map_or(first, |last| last + 1);
        let own = first..end;
        space = Some(match space {
            Some((all, _)) if all != dims => return None,
            Some((_, axes)) if own.is_empty() => (dims, axes),
            Some((_, axes)) if !axes.is_empty() => {
                (dims, axes.start.min(own.start)..axes.end.max(own.end))
            }
            _ => (dims, own),
        });
    }
    // The first stretch has the values of operands that are broadcast along all axes.
    space.map(|(dims, axes)| (dims, if axes.is_empty() { 0..0 } else { axes }))
}

/// Operands whose values are computed once for several elements.
#[derive(Default)]
struct OperandTable<'a> {
    roots: Vec<Ref>,
    axes: Range<usize>,
    dims: &'a [usize],
}

impl<'a> OperandTable<'a> {
    /// Adds an operand over some axes of `dims`. Returns its number.
    fn push(&mut self, root: Ref, axes: Range<usize>, dims: &'a [usize]) -> usize {
        self.axes = if self.roots.is_empty() {
            axes
        } else {
            self.axes.start.min(axes.start)..self.axes.end.max(axes.end)
        };
        self.dims = dims;
        self.roots.push(root);
        self.roots.len() - 1
    }

    /// Elements over the axes.
    fn len(&self) -> usize {
        if self.roots.is_empty() {
            usize::MAX
        } else {
            self.dims[self.axes.clone()].iter().product()
        }
    }

    /// Elements after the axes.
    fn after(&self) -> usize {
        if self.roots.is_empty() { usize::MAX } else { self.dims[self.axes.end..].iter().product() }
    }

    fn table(self, job: &StepJob<'_>) -> Option<LinkTable> {
        if self.roots.is_empty() {
            return None;
        }
        let inputs = inputs_along(job, &self.axes);
        let (expr, scalars) = (&job.step.expr, &job.step.scalars);
        let tape = Tape::compile(expr, &self.roots, scalars, &inputs);
        Some(LinkTable { tape, len: self.len(), axes: self.axes })
    }
}

/// The operands of the out space along some of its axes, from the first element along all others.
pub(super) fn inputs_along<'a>(
    job: &StepJob<'a>,
    axes: &Range<usize>,
) -> Vec<Option<BoundInput<'a>>> {
    job.inputs_through(Space::Out, |view| Cow::Owned(view.along(axes.clone())))
}
