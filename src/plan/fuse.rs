//! The pass *fuse*: which values are stored, and which are computed where they are read.
//!
//! Values are taken from the last to the first, so that all readers of a value are settled before
//! the value itself. An elementwise value moves into the kernels that read it where that saves
//! memory traffic; then a kernel that only maps what one heavy kernel made becomes the epilogue of
//! that one.

use super::fail::{self, Sites};
use super::ir::{Ir, IrNode, Ix};
use super::lookup;
use super::path::Views;
use super::reads::{
    Read, attention_dims, epilogue_space, expr_reads, into_epilogue, is_heavy, knows_position,
    reads_position, root_reads, table_read, takes_epilogue,
};
use super::step::Space;
use crate::cost::{Backend, Rates};
use crate::dtype::DType;
use crate::ops::Op;

/// No kernel computes more operations than this: compilers take longer than linear time. What is written as many
/// [counts](operations) as many.
const MAX_OPS: usize = 128;

/// Queries that are one tile of every attention.
const FEW_QUERIES: usize = 32;

/// A kernel in the making.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The value that it is made for.
    pub root: Ix,
    /// The heavy value whose epilogue the root has become.
    pub anchor: Option<Ix>,
    /// Values in between that are stored as well, and the other result of a sort.
    pub extra: Vec<Ix>,
    /// What it reads from memory.
    pub reads: Vec<Read>,
    /// Operations it computes.
    pub ops: Vec<Ix>,
    /// How many operations an element takes: one that is read in several ways is computed in each.
    pub size: usize,
}

/// What the pass found.
pub(super) struct Fusion {
    /// In an order of dependency.
    pub groups: Vec<Group>,
    /// For each node, whether its readers load it. (Of a group's `extra` values, all of which are stored,
    /// only the other result of a sort is loaded.)
    pub stored: Vec<bool>,
}

pub(super) fn fuse(
    ir: &Ir,
    views: &Views,
    sites: &Sites,
    storage_buffers: usize,
    rates: &Rates,
    backend: Backend,
) -> Fusion {
    let mut pass = Pass {
        ir,
        views,
        sites,
        rates,
        backend,
        buffers: storage_buffers,
        is_output: vec![false; ir.nodes.len()],
        ends_heavy: Vec::new(),
        group_of: vec![None; ir.nodes.len()],
        readers: vec![Vec::new(); ir.nodes.len()],
        stored: vec![false; ir.nodes.len()],
        groups: Vec::new(),
    };
    for ix in ir.outputs() {
        pass.is_output[views.of(ix).0] = true;
    }
    pass.ends_heavy = pass.ends_of_heavy();
    for ix in (0..ir.nodes.len()).rev() {
        if views.is_base(ix) {
            pass.settle(ix);
        }
    }
    pass.groups.reverse();
    let last = pass.groups.len().saturating_sub(1);
    pass.readers.iter_mut().flatten().for_each(|group| *group = last - *group);
    pass.attach_epilogues();
    Fusion { groups: pass.groups, stored: pass.stored }
}

struct Pass<'a> {
    ir: &'a Ir,
    views: &'a Views,
    sites: &'a Sites,
    rates: &'a Rates,
    backend: Backend,
    buffers: usize,
    is_output: Vec<bool>,
    /// Whether an elementwise value can be what a heavy kernel writes instead of its own result.
    ends_heavy: Vec<bool>,
    /// The group whose root a value is.
    group_of: Vec<Option<usize>>,
    /// The groups that read a value.
    readers: Vec<Vec<usize>>,
    stored: Vec<bool>,
    groups: Vec<Group>,
}

impl Pass<'_> {
    /// Decides whether the value is stored or computed by its readers.
    fn settle(&mut self, ix: Ix) {
        let op = &self.ir.nodes[ix].op;
        if self.readers[ix].is_empty() && !self.is_output[ix] {
            return;
        }
        if op.is_source() {
            self.stored[ix] = true;
            return;
        }
        if !is_heavy(op) && self.inline(ix) {
            return;
        }
        self.stored[ix] = true;
        if let Some(group) = self.group_of_pair(ix) {
            group.extra.push(ix);
            group.ops.push(ix);
            return;
        }
        let reads = root_reads(self.ir, self.views, ix);
        let group = self.groups.len();
        for read in &reads {
            add_reader(&mut self.readers[read.base], group);
        }
        self.groups.push(Group {
            root: ix,
            anchor: None,
            extra: Vec::new(),
            reads,
            ops: vec![ix],
            size: operations(&self.ir.nodes[ix].op),
        });
    }

    /// The group of the other result of the same sort, which comes next.
    fn group_of_pair(&mut self, ix: Ix) -> Option<&mut Group> {
        let pair = self.ir.is_pair(ix, ix + 1);
        self.groups.last_mut().filter(|group| pair && group.root == ix + 1)
    }

    /// For each value whether it maps, element by element, what one heavy kernel made for it alone.
    fn ends_of_heavy(&self) -> Vec<bool> {
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

    /// Moves an elementwise value into all of its readers, if that is possible and pays.
    fn inline(&mut self, ix: Ix) -> bool {
        let readers = self.readers[ix].clone();
        let also_stored = self.is_output[ix];
        if readers.is_empty() || (also_stored && !self.can_store_between(ix, &readers)) {
            return false;
        }
        // As an epilogue it costs no traffic at all; as a prologue it would be computed again for each
        // reader, or each tile.
        let maps_on =
            readers.len() == 1 && !is_heavy(&self.ir.nodes[self.groups[readers[0]].root].op);
        if self.ends_heavy[ix] && !maps_on {
            return false;
        }
        let mut after = Vec::with_capacity(readers.len());
        for &group in &readers {
            let Some(reads) = self.reads_after(ix, group) else { return false };
            after.push(reads);
        }
        if !also_stored && !self.pays(ix, &readers, &after) {
            return false;
        }
        for (&group, reads) in readers.iter().zip(after) {
            for read in &reads {
                add_reader(&mut self.readers[read.base], group);
            }
            self.groups[group].size += self.added(group, ix);
            self.groups[group].reads = reads;
            self.groups[group].ops.push(ix);
            if also_stored {
                self.groups[group].extra.push(ix);
            }
        }
        true
    }

    /// Whether the one group that reads an output can store it on its way.
    fn can_store_between(&self, ix: Ix, readers: &[usize]) -> bool {
        let &[group] = readers else { return false };
        let group = &self.groups[group];
        let shape = &self.ir.nodes[ix].ty.shape;
        let direct =
            group.reads.iter().filter(|read| read.base == ix).all(|read| read.path.is_empty());
        let is_move = |ix: Ix| matches!(self.ir.nodes[ix].op, Op::Move { .. });
        !is_heavy(&self.ir.nodes[group.root].op)
            && !is_move(group.root)
            && !is_move(ix)
            && *shape == self.ir.nodes[group.root].ty.shape
            && direct
    }

    /// The group's reads if it computed `ix` itself; `None` where it cannot.
    fn reads_after(&self, ix: Ix, group: usize) -> Option<Vec<Read>> {
        let added = self.added(group, ix);
        let group = &self.groups[group];
        if group.size + added > MAX_OPS || !self.can_be_computed(ix, group) {
            return None;
        }
        let mut reads: Vec<Read> =
            group.reads.iter().filter(|read| read.base != ix).cloned().collect();
        let inputs = expr_reads(self.ir, self.views, ix);
        for through in group.reads.iter().filter(|read| read.base == ix) {
            let node = &self.ir.nodes[ix];
            if !knows_position(&node.op, &node.ty.shape, &through.path) {
                return None;
            }
            lookup::elements(self.ir, self.views, ix)
                .map_or(Some(()), |elements| through.path.carried(elements.first).map(drop))?;
            for (base, path) in &inputs {
                let path = path.followed_by(&through.path);
                path.view(&self.ir.nodes[*base].ty.shape)?;
                let read = Read { base: *base, path, space: through.space };
                if !reads.contains(&read) {
                    reads.push(read);
                }
            }
        }
        let table =
            table_read(self.views, &self.ir.nodes[ix]).filter(|table| !reads.contains(table));
        reads.extend(table);
        let failures = self.can_fail(group) || self.sites.get(ix).is_some();
        let outputs = 1 + group.extra.len() + usize::from(self.is_output[ix]);
        (distinct(&reads) + outputs + usize::from(failures) <= self.buffers).then_some(reads)
    }

    /// Operations that the group takes more if it computes `ix` itself.
    fn added(&self, group: usize, ix: Ix) -> usize {
        ways(&self.groups[group], ix) * operations(&self.ir.nodes[ix].op)
    }

    /// Whether some operation of the group can fail.
    fn can_fail(&self, group: &Group) -> bool {
        group.ops.iter().any(|&ix| self.sites.get(ix).is_some())
    }

    /// Whether the group need not have `ix` in memory: it is no table of the group's, and where it can fail it does so
    /// for each of its elements, and for no other.
    fn can_be_computed(&self, ix: Ix, group: &Group) -> bool {
        let mut reads = group.reads.iter().filter(|read| read.base == ix);
        let fails = self.sites.get(ix).is_some();
        let maps = !is_heavy(&self.ir.nodes[group.root].op);
        reads.all(|read| {
            read.space != Space::Whole
                && (!fails || (maps && fail::reaches_all(self.ir, ix, &read.path)))
        })
    }

    /// Whether computing the value where it is read beats storing it once.
    fn pays(&self, ix: Ix, readers: &[usize], after: &[Vec<Read>]) -> bool {
        let node = &self.ir.nodes[ix];
        let bytes = self.bytes(ix);
        let flops = flops(&node.op, node.ty.dtype) as f64;
        let own_reads: f64 =
            expr_reads(self.ir, self.views, ix).iter().map(|&(base, _)| self.bytes(base)).sum();
        let elements = node.ty.shape.elements() as f64;
        // Stored: its inputs are read once, it is written once and read by each.
        let stored =
            self.rates.seconds(own_reads + bytes * (1 + readers.len()) as f64, flops * elements)
                + self.rates.dispatch;
        let mut inlined = 0.0;
        for (&group, after) in readers.iter().zip(after) {
            let before = &self.groups[group];
            let new_reads: f64 = after
                .iter()
                .filter(|read| !before.reads.iter().any(|old| old.base == read.base))
                .map(|read| self.bytes(read.base))
                .sum();
            let mut evaluations = 0.0;
            for read in before.reads.iter().filter(|read| read.base == ix) {
                let times = match read.space {
                    Space::Key | Space::Value if self.is_joined_in_place(ix, group) => 1.0,
                    // Every tile along the other side of the product evaluates it anew.
                    Space::X | Space::W | Space::Query | Space::Key | Space::Value
                        if flops > 4.0 || after.len() > before.reads.len() =>
                    {
                        return false;
                    }
                    // The cores would find out for each element of each window whether it is of the border.
                    Space::X | Space::W if self.backend == Backend::Cpu && overlaps(node, read) => {
                        return false;
                    }
                    Space::X | Space::W | Space::Query | Space::Key | Space::Value => 1.0,
                    Space::Main | Space::Scores | Space::Out | Space::Whole => {
                        read.path.shape().elements() as f64 / elements.max(1.0)
                    }
                };
                evaluations += elements * times.max(1.0);
            }
            inlined += self.rates.seconds(new_reads, flops * evaluations);
        }
        inlined <= stored
    }

    /// Whether `ix` is joined from parts for the few queries of an attention, whose one tile reads each part once: keys and
    /// values with what was appended to them.
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

    /// Turns each group that maps the result of one heavy kernel, read by nobody else, into the
    /// epilogue of that kernel.
    fn attach_epilogues(&mut self) {
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

    /// What the kernel of `anchor` reads with the group `at` as its epilogue.
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
        (distinct(&reads) + outputs <= self.buffers).then_some(reads)
    }
}

fn add_reader(readers: &mut Vec<usize>, group: usize) {
    if !readers.contains(&group) {
        readers.push(group);
    }
}

/// How many operations a node counts as: ten rounds of Philox, or the steps of a search, are tens of lines.
fn operations(op: &Op) -> usize {
    match op {
        Op::Random(_) | Op::SearchSorted { .. } => 24,
        _ => 1,
    }
}

/// The different ways in which a group reads a value.
fn ways(group: &Group, ix: Ix) -> usize {
    group.reads.iter().filter(|read| read.base == ix).count()
}

fn distinct(reads: &[Read]) -> usize {
    (0..reads.len()).filter(|&i| reads[..i].iter().all(|read| read.base != reads[i].base)).count()
}

/// How dear the kernel of a heavy value is: the dearest takes the epilogue.
fn weight(ir: &Ir, ix: Ix) -> u8 {
    match ir.nodes[ix].op {
        Op::MatMul(_) | Op::Attention(_) => 3,
        Op::Row { .. } | Op::Scan { .. } => 2,
        _ => 1,
    }
}

/// Whether `read` has elements of a value with a border in several windows each.
fn overlaps(node: &IrNode, read: &Read) -> bool {
    matches!(node.op, Op::Pad { .. }) && read.path.shape().elements() > 2 * node.ty.shape.elements()
}

/// Rough flops of one element of an elementwise node.
fn flops(op: &Op, dtype: DType) -> u64 {
    match op {
        Op::Elementwise(..) | Op::Select | Op::Cast(_) => super::expression::flops(op, dtype),
        Op::Random(random) => random.flops(dtype),
        Op::SearchSorted { .. } => 64,
        _ => 2,
    }
}
