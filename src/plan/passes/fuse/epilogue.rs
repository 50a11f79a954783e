//! Kernels that only map the result of one heavy kernel become its epilogue.

use super::inline::MAX_OPS;
use super::{Fuser, add_reader, values_read};
use crate::ops::Op;
use crate::plan::passes::ir::{Ir, Ix};
use crate::plan::passes::reads::{
    Read, epilogue_space, expr_reads, into_epilogue, is_heavy, reads_position, takes_epilogue,
};
use crate::plan::step_parts::Space;

impl Fuser<'_> {
    /// True for each value that maps, element by element, the result that one heavy kernel made for it alone.
    pub(super) fn ends_of_heavy(&self) -> Vec<bool> {
        let mut users: Vec<Vec<Ix>> = vec![Vec::new(); self.ir.nodes.len()];
        for (ix, node) in self.ir.nodes.iter().enumerate() {
            if self.views.is_base(ix) {
                for &input in &node.inputs {
                    add_reader(&mut users[self.views.of(input).0], ix);
                }
            }
        }
        let mut ends = vec![false; self.ir.nodes.len()];
        for (ix, node) in self.ir.nodes.iter().enumerate() {
            let maps = matches!(node.op, Op::Elementwise(..) | Op::Select | Op::Cast(_));
            ends[ix] = maps
                && expr_reads(self.ir, self.views, ix).iter().any(|(base, path)| {
                    let from = &self.ir.nodes[*base];
                    users[*base] == [ix]
                        && !self.is_output[*base]
                        && (takes_epilogue(&from.op) || ends[*base])
                        && from.ty.shape.elements() == node.ty.shape.elements()
                        && path.view(&from.ty.shape).is_some_and(|view| view.is_contiguous())
                });
        }
        ends
    }

    /// Turns each group that maps the result of one heavy kernel, read by nobody else, into the
    /// epilogue of that kernel.
    pub(super) fn attach_epilogues(&mut self) {
        let mut gone = vec![false; self.groups.len()];
        for (at, group) in self.groups.iter().enumerate() {
            self.group_of[group.root] = Some(at);
        }
        for at in 0..self.groups.len() {
            let heavy = self.heavy_reads(at);
            let best = heavy.into_iter().filter_map(|ix| Some((ix, self.epilogue_reads(at, ix)?)));
            let Some((anchor, reads)) = best.max_by_key(|(ix, _)| weight(self.ir, *ix)) else {
                continue;
            };
            let Some(source) = self.group_of[anchor] else { continue };
            gone[source] = true;
            let mut ops = self.groups[source].ops.clone();
            let size = self.groups[source].size;
            if self.is_output[anchor] {
                self.groups[at].extra.push(anchor);
            }
            self.stored[anchor] = false;
            for read in &reads {
                add_reader(&mut self.readers[read.base], at);
            }
            let group = &mut self.groups[at];
            ops.append(&mut group.ops);
            group.size += size;
            (group.anchor, group.reads, group.ops) = (Some(anchor), reads, ops);
        }
        let mut at = 0;
        self.groups.retain(|_| {
            at += 1;
            !gone[at - 1]
        });
    }

    /// The heavy values that only the mapping group `at` reads, as they lie.
    fn heavy_reads(&self, at: usize) -> Vec<Ix> {
        let group = &self.groups[at];
        let root = &self.ir.nodes[group.root];
        if is_heavy(&root.op) || matches!(root.op, Op::Move { .. }) {
            return Vec::new();
        }
        let mut heavy = Vec::new();
        for read in &group.reads {
            let node = &self.ir.nodes[read.base];
            let whole = || {
                node.ty.shape.elements() == root.ty.shape.elements()
                    && read.path.view(&node.ty.shape).is_some_and(|view| view.is_contiguous())
            };
            if takes_epilogue(&node.op)
                && self.readers[read.base] == [at]
                && whole()
                && !heavy.contains(&read.base)
            {
                heavy.push(read.base);
            }
        }
        heavy
    }

    /// The reads of the kernel of `anchor` with the group `at` as its epilogue.
    fn epilogue_reads(&self, at: usize, anchor: Ix) -> Option<Vec<Read>> {
        let group = &self.groups[at];
        let source = &self.groups[self.group_of[anchor]?];
        let looks_up = group.reads.iter().any(|read| read.space == Space::Whole);
        if source.size + group.size > MAX_OPS
            || source.root != anchor
            || looks_up
            || self.can_fail(group)
        {
            return None;
        }
        let mut reads = source.reads.clone();
        for read in &group.reads {
            let path = into_epilogue(self.ir, anchor, &read.path);
            let view = path.view(&self.ir.nodes[read.base].ty.shape)?;
            if read.base == anchor {
                // Every use must be the element itself, not a transposed or shifted one.
                if !read.path.view(&self.ir.nodes[anchor].ty.shape)?.is_contiguous() {
                    return None;
                }
                continue;
            }
            debug_assert_eq!(view.shape().elements(), self.ir.nodes[anchor].ty.shape.elements());
            reads.push(Read {
                base: read.base,
                path,
                space: epilogue_space(&self.ir.nodes[anchor].op),
            });
        }
        for &ix in &group.ops {
            // Coordinates, too, must survive the way into the kernel's space.
            if reads_position(&self.ir.nodes[ix].op)
                && self.ir.nodes[ix].ty.shape != self.ir.nodes[anchor].ty.shape
            {
                return None;
            }
        }
        let outputs = 1 + group.extra.len() + usize::from(self.is_output[anchor]);
        (values_read(&reads) + outputs <= self.buffers).then_some(reads)
    }
}

/// The rank of the kernel of a heavy value by its cost: the dearest takes the epilogue.
fn weight(ir: &Ir, ix: Ix) -> u8 {
    match ir.nodes[ix].op {
        Op::MatMul(_) | Op::Attention(_) => 3,
        Op::Row { .. } | Op::Scan { .. } => 2,
        _ => 1,
    }
}
