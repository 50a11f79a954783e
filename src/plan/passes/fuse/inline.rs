//! Values that move into the kernels that read them: into all, where computing a value at each reader takes less time
//! than storing it once, or into the first, which stores it for the others.

use super::{Fuser, Group, add_reader, operations, values_read};
use crate::base::dtype::DType;
use crate::cost::{Backend, Rates};
use crate::ops::{Elementwise, Op};
use crate::plan::forms::Sliding;
use crate::plan::passes::ir::{IrNode, Ix};
use crate::plan::passes::path::Path;
use crate::plan::passes::reads::{
    Read, attention_dims, expr_reads, is_heavy, knows_position, table_read,
};
use crate::plan::passes::{expression, failure_sites, reads};
use crate::plan::step_parts::Space;

/// No kernel computes more operations than this: compilers take longer than linear time. What is written as many
/// [counts](operations) as many.
pub(super) const MAX_OPS: usize = 128;

impl Fuser<'_> {
    /// Moves an elementwise value into its readers, if that is possible and pays: into all of them, or into the first,
    /// which then stores it for the others.
    pub(super) fn inline(&mut self, ix: Ix) -> bool {
        let readers = self.readers[ix].clone();
        // Groups are made from the last to the first, and none reads what a later one stores.
        let Some(&first) = readers.iter().max() else { return false };
        // As an epilogue it costs no traffic at all; as a prologue it would be computed again for each
        // reader, or each tile.
        let maps_on = readers.len() == 1 && !is_heavy(&self.ir.nodes[self.groups[first].root].op);
        if self.ends_heavy[ix] && !maps_on {
            return false;
        }
        let is_output = self.is_output[ix];
        let store = (is_output || readers.len() > 1) && self.can_store_between(ix, first);
        let stored = if store { self.reads_after(ix, first, true) } else { None };
        let inlined = if is_output { None } else { self.reads_inlined(ix, &readers) };
        match (stored, inlined) {
            (Some(reads), after)
                if after.as_ref().is_none_or(|after| self.shares(ix, &readers, after)) =>
            {
                self.stored[ix] = true;
                self.groups[first].extra.push(ix);
                self.compute_in(first, ix, reads);
                // The others go on reading it.
                self.readers[ix].retain(|&group| group != first);
                true
            }
            (_, Some(after)) => {
                for (&group, reads) in readers.iter().zip(after) {
                    self.compute_in(group, ix, reads);
                }
                true
            }
            _ => false,
        }
    }

    /// The reads of all readers of `ix` if each computed it itself; `None` where one cannot, or where a kernel of its own
    /// takes less time.
    fn reads_inlined(&self, ix: Ix, readers: &[usize]) -> Option<Vec<Vec<Read>>> {
        let after = readers.iter().map(|&group| self.reads_after(ix, group, false));
        let after: Vec<Vec<Read>> = after.collect::<Option<_>>()?;
        self.pays(ix, readers, &after).then_some(after)
    }

    /// Makes the group compute `ix`, after which it reads `reads`.
    fn compute_in(&mut self, group: usize, ix: Ix, reads: Vec<Read>) {
        for read in &reads {
            add_reader(&mut self.readers[read.base], group);
        }
        self.groups[group].size += self.added(group, ix);
        self.groups[group].reads = reads;
        self.groups[group].ops.push(ix);
    }

    /// True if the group, which reads the value, can store it on its way.
    fn can_store_between(&self, ix: Ix, group: usize) -> bool {
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

    /// The group's reads if it computed `ix` itself, and perhaps stored it; `None` where it cannot.
    fn reads_after(&self, ix: Ix, group: usize, stores: bool) -> Option<Vec<Read>> {
        let added = self.added(group, ix);
        let group = &self.groups[group];
        if group.size + added > MAX_OPS || !self.can_be_computed(ix, group) {
            return None;
        }
        let mut reads: Vec<Read> =
            group.reads.iter().filter(|read| read.base != ix).cloned().collect();
        let inputs = self.loads(ix);
        for through in group.reads.iter().filter(|read| read.base == ix) {
            let node = &self.ir.nodes[ix];
            if !knows_position(&node.op, &node.ty.shape, &through.path) {
                return None;
            }
            reads::table_elements(self.ir, self.views, ix)
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
        let outputs = 1 + group.extra.len() + usize::from(stores);
        (values_read(&reads) + outputs + usize::from(failures) <= self.buffers).then_some(reads)
    }

    /// The [reads](expr_reads) of the node's expression from memory.
    fn loads(&self, ix: Ix) -> Vec<(Ix, Path)> {
        let mut loads = expr_reads(self.ir, self.views, ix);
        loads.retain(|&(base, _)| !self.is_number(base));
        loads
    }

    /// Operations that the group takes more if it computes `ix` itself.
    fn added(&self, group: usize, ix: Ix) -> usize {
        ways(&self.groups[group], ix) * operations(&self.ir.nodes[ix].op)
    }

    /// True if the group need not have `ix` in memory: it is no table of the group's, and where it can fail it does so
    /// for each of its elements, and for no other.
    fn can_be_computed(&self, ix: Ix, group: &Group) -> bool {
        let mut reads = group.reads.iter().filter(|read| read.base == ix);
        let fails = self.sites.get(ix).is_some();
        let maps = !is_heavy(&self.ir.nodes[group.root].op);
        reads.all(|read| {
            read.space != Space::Whole
                && (!fails || (maps && failure_sites::reaches_all(self.ir, ix, &read.path)))
        })
    }
}

/// The different ways in which a group reads a value.
fn ways(group: &Group, ix: Ix) -> usize {
    group.reads.iter().filter(|read| read.base == ix).count()
}

/// Queries that are one tile of every attention.
const FEW_QUERIES: usize = 32;

impl Fuser<'_> {
    /// True if computing the value where it is read beats storing it once.
    pub(super) fn pays(&self, ix: Ix, readers: &[usize], after: &[Vec<Read>]) -> bool {
        let node = &self.ir.nodes[ix];
        let flops = flops(&node.op, node.ty.dtype) as f64;
        let own_reads: f64 = self.loads(ix).iter().map(|&(base, _)| self.bytes(base)).sum();
        let elements = node.ty.shape.elements() as f64;
        // Stored: its inputs are read once, it is written once and read by each.
        let bytes = own_reads + self.bytes(ix) * (1 + readers.len()) as f64;
        let stored = self.rates.seconds(bytes, flops * elements) + self.rates.dispatch;
        let mut inlined = 0.0;
        for (&group, after) in readers.iter().zip(after) {
            let before = &self.groups[group];
            let new_reads = self.new_bytes(group, after);
            let reads_more = after.len() > before.reads.len();
            let Some(evaluations) = self.evaluations(ix, group, flops > 4.0 || reads_more) else {
                return false;
            };
            inlined += self.rates.seconds(new_reads, flops * evaluations);
        }
        inlined <= stored
    }

    /// True if the first reader should store `ix` for the others, where each could compute it. Then later kernels load
    /// one value, where else they load all of its operands and repeat its operations. All bytes and all flops count: of
    /// a chain of values with many readers each, what repeats them would grow with the chain.
    fn shares(&self, ix: Ix, readers: &[usize], after: &[Vec<Read>]) -> bool {
        let node = &self.ir.nodes[ix];
        let elements = node.ty.shape.elements() as f64;
        let Rates { bandwidth, flops: rate, .. } = *self.rates;
        let repeated = flops(&node.op, node.ty.dtype) as f64 * elements / rate;
        let mut gain = -self.bytes(ix) / bandwidth;
        let first = readers.iter().max();
        for (group, after) in readers.iter().zip(after).filter(|(group, _)| Some(*group) != first) {
            gain += (self.new_bytes(*group, after) - self.bytes(ix)) / bandwidth + repeated;
        }
        gain > 0.0
    }

    /// Bytes that the group reads if its reads are `after`, and does not read yet.
    fn new_bytes(&self, group: usize, after: &[Read]) -> f64 {
        let before = &self.groups[group].reads;
        let new = after.iter().filter(|read| !before.iter().any(|old| old.base == read.base));
        new.map(|read| self.bytes(read.base)).sum()
    }

    /// The number of elements of `ix` that the group would compute; `None` if that is known not to pay. If the value is
    /// `dear`, no product and no attention computes it in each of its tiles.
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
                // The cores copy windows of `f32` with a border, but would compute anything else for each window anew.
                Space::X | Space::W if self.backend == Backend::Cpu && overlaps(node, read) => {
                    let copied = matches!(node.op, Op::Pad { .. }) && node.ty.dtype == DType::F32;
                    if !copied || read.space == Space::X {
                        return None;
                    }
                    1.0
                }
                Space::X | Space::W | Space::Query | Space::Key | Space::Value => 1.0,
                // The cores compute each element once, however many windows it lies in.
                Space::Main if self.slides(group, read) => 1.0,
                Space::Main | Space::Scores | Space::Out | Space::Whole => {
                    read.path.shape().elements() as f64 / elements.max(1.0)
                }
            };
            evaluations += elements * times.max(1.0);
        }
        Some(evaluations)
    }

    /// True if the host's kernel of the group reads windows of images, and no operation but a weight comes between.
    fn slides(&self, group: usize, read: &Read) -> bool {
        let op = |ix: Ix| &self.ir.nodes[ix].op;
        let Group { root, ops, .. } = &self.groups[group];
        let combines = match op(*root) {
            Op::Reduce { op, .. } => Sliding::combines(op.def().combine),
            _ => false,
        };
        let weighs = |&ix: &Ix| {
            ix == *root || matches!(op(ix), Op::Pad { .. } | Op::Elementwise(Elementwise::Mul, _))
        };
        let on_host = self.backend == Backend::Cpu;
        on_host && combines && read.path.has_windows() && ops.iter().all(weighs)
    }

    /// True if `ix` is joined from parts for the few queries of an attention, whose one tile reads each part once: keys
    /// and values with appended ones.
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

/// True if `read` has most elements of a value in several windows each.
fn overlaps(node: &IrNode, read: &Read) -> bool {
    read.path.shape().elements() > 2 * node.ty.shape.elements()
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
