//! The choice between computing a value at each reader and storing it once, by time.

use super::Pass;
use crate::base::dtype::DType;
use crate::cost::Backend;
use crate::ops::Op;
use crate::plan::passes::expression;
use crate::plan::passes::ir::{IrNode, Ix};
use crate::plan::passes::reads::{Read, attention_dims, expr_reads};
use crate::plan::step_parts::Space;

/// Queries that are one tile of every attention.
const FEW_QUERIES: usize = 32;

impl Pass<'_> {
    /// True if computing the value where it is read beats storing it once.
    pub(super) fn pays(&self, ix: Ix, readers: &[usize], after: &[Vec<Read>]) -> bool {
        let node = &self.ir.nodes[ix];
        let flops = flops(&node.op, node.ty.dtype) as f64;
        let own_reads: f64 =
            expr_reads(self.ir, self.views, ix).iter().map(|&(base, _)| self.bytes(base)).sum();
        let elements = node.ty.shape.elements() as f64;
        // Stored: its inputs are read once, it is written once and read by each.
        let bytes = own_reads + self.bytes(ix) * (1 + readers.len()) as f64;
        let stored = self.rates.seconds(bytes, flops * elements) + self.rates.dispatch;
        let mut inlined = 0.0;
        for (&group, after) in readers.iter().zip(after) {
            let before = &self.groups[group];
            let new_reads: f64 = after
                .iter()
                .filter(|read| !before.reads.iter().any(|old| old.base == read.base))
                .map(|read| self.bytes(read.base))
                .sum();
            let reads_more = after.len() > before.reads.len();
            let Some(evaluations) = self.evaluations(ix, group, flops > 4.0 || reads_more) else {
                return false;
            };
            inlined += self.rates.seconds(new_reads, flops * evaluations);
        }
        inlined <= stored
    }

    /// The number of elements of `ix` that the group would compute; `None` if that is known not to pay. Whether the
    /// value is
    /// `dear`: then no product and no attention is to compute it in each of its tiles.
    fn evaluations(&self, ix: Ix, group: usize, dear: bool) -> Option<f64> {
        let node = &self.ir.nodes[ix];
        let elements = node.ty.shape.elements() as f64;
        let mut evaluations = 0.0;
        for read in self.groups[group].reads.iter().filter(|read| read.base == ix) {
            let times = match read.space {
                Space::Key | Space::Value if self.is_joined_in_place(ix, group) => 1.0,
                // Every tile along the other side of the product evaluates it anew.
                Space::X | Space::W | Space::Query | Space::Key | Space::Value if dear => {
                    return None;
                }
                // The cores would find out for each element of each window whether it is of the border.
                Space::X | Space::W if self.backend == Backend::Cpu && overlaps(node, read) => {
                    return None;
                }
                Space::X | Space::W | Space::Query | Space::Key | Space::Value => 1.0,
                Space::Main | Space::Scores | Space::Out | Space::Whole => {
                    read.path.shape().elements() as f64 / elements.max(1.0)
                }
            };
            evaluations += elements * times.max(1.0);
        }
        Some(evaluations)
    }

    /// True if `ix` is joined from parts for the few queries of an attention, whose one tile reads each part once: keys
    /// and values with what was appended to them.
    fn is_joined_in_place(&self, ix: Ix, group: usize) -> bool {
        let root = self.groups[group].root;
        matches!(self.ir.nodes[ix].op, Op::Concat { .. })
            && matches!(self.ir.nodes[root].op, Op::Attention(_))
            && attention_dims(self.ir, root).is_some_and(|dims| dims.queries <= FEW_QUERIES)
    }

    fn bytes(&self, ix: Ix) -> f64 {
        let ty = &self.ir.nodes[ix].ty;
        (ty.shape.elements() * ty.dtype.size()) as f64
    }
}

/// True if `read` has elements of a value with a border in several windows each.
fn overlaps(node: &IrNode, read: &Read) -> bool {
    matches!(node.op, Op::Pad { .. }) && read.path.shape().elements() > 2 * node.ty.shape.elements()
}

/// Rough flops of one element of an elementwise node.
fn flops(op: &Op, dtype: DType) -> u64 {
    match op {
        Op::Elementwise(..) | Op::Select | Op::Cast(_) => expression::flops(op, dtype),
        Op::Random(random) => random.flops(dtype),
        Op::SearchSorted { .. } => 64,
        _ => 2,
    }
}
