//! The work of the host's cores, where it differs from that of a GPU's kernel.

use super::tally::count;
use crate::base::shape::points;
use crate::cost::Work;
use crate::expr::ExprNode;
use crate::plan::step_parts::{OperandSource, StepContext, StepOperand};

/// The cost of an element that is gathered, or fetched from a window for a product, in flops.
const GATHER_FLOPS: f64 = 8.0;
/// The cost of an element of an image that is laid out for the windows of a product, over that of gathering it.
pub(super) const LAYOUT_SHARE: f64 = 0.25;
/// The cost of an element of an image that is laid out for the windows of a reduction, in flops.
pub(super) const LAYOUT_FLOPS: f64 = 2.0;
/// The cost of an element that a window takes in, in flops of a reduction.
pub(super) const TAP_FLOPS: f64 = 0.5;
/// The columns of a product that are computed at a time: a vector of 16.
pub(super) const PRODUCT_COLUMNS: usize = 16;
/// The rows of a product up to which its columns are not padded.
pub(super) const UNPADDED_ROWS: usize = 8;
/// The least number of neighbours with one value for which the host computes it once.
pub(crate) const SHORTEST_STRETCH: usize = 8;

/// `work` without flops that the host spares.
pub(super) fn without(work: Work, flops: f64) -> Work {
    Work { arithmetic: (work.arithmetic - flops).max(0.0), ..work }
}

/// `work` with elements that are loaded one by one, each with an index to find and to check.
pub(super) fn with_loads(work: Work, elements: f64) -> Work {
    Work { arithmetic: work.arithmetic + GATHER_FLOPS * elements, ..work }
}

/// `work` with the loads through views of operands that find each element by its index.
pub(super) fn with_indexed_loads(work: Work, operands: &[StepOperand]) -> Work {
    let indexed = operands.iter().filter(|operand| match operand.source {
        OperandSource::Iota => operand.view.dims.len() > 1,
        _ => operand.clamp,
    });
    with_loads(work, indexed.map(|operand| count(&operand.view.dims)).sum())
}

/// `work` without the flops of outputs that the host computes once for neighbouring elements with the same value.
pub(crate) fn without_repeats(work: Work, context: &StepContext<'_>) -> Work {
    let &StepContext { expr, operands, .. } = context;
    // The number of neighbours with the same value, and the elements of the space, by node.
    let mut stretches = vec![(1, 0); expr.len()];
    let mut spared = [0.0; 2];
    for r in expr.reachable(&context.roots()) {
        let node = expr.node(r);
        stretches[r.index()] = match node {
            ExprNode::Load(operand) => {
                let view = &operands[usize::from(operand)].view;
                let axes = view.dims.iter().zip(&view.strides).rev();
                let still = axes.take_while(|&(&dim, &stride)| dim == 1 || stride == 0);
                (still.map(|(&dim, _)| dim).product(), points(&view.dims))
            }
            ExprNode::Acc => (1, 0),
            node => {
                let operands = node.operands().map(|operand| stretches[operand.index()]);
                operands.fold((usize::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)))
            }
        };
        let (stretch, elements) = stretches[r.index()];
        if stretch >= SHORTEST_STRETCH {
            let flops = node.flops() as f64 * (elements - elements.div_ceil(stretch)) as f64;
            spared[usize::from(node.is_transcendental())] += flops;
        }
    }
    let [arithmetic, transcendental] = spared;
    let transcendental = (work.transcendental - transcendental).max(0.0);
    Work { transcendental, ..without(work, arithmetic) }
}
