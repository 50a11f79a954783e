//! The pass *fuse*: which values are stored, and which are computed where they are read.
//!
//! Values are taken from the last to the first, so that all readers of a value are settled before the value itself. An
//! elementwise value moves into the kernels that read it where that saves memory traffic, or into the first of them,
//! which stores it for the others. A constant is a number in each kernel that reads it, and is stored only for outputs
//! and tables. Then a kernel that only maps the result of one heavy kernel becomes its epilogue.

mod epilogue;
mod inline;

use super::ir::{Ir, Ix};
use super::path::Views;
use super::reads::{Read, is_heavy, root_reads};
use crate::cost::{Backend, Rates};
use crate::ops::Op;
use crate::plan::passes::failure_sites::Sites;
use crate::plan::step_parts::Space;

/// A kernel in the making.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The value that it is made for.
    pub root: Ix,
    /// The heavy value whose epilogue the root has become.
    pub anchor: Option<Ix>,
    /// Values in between that are stored as well, and the other result of a sort.
    pub extra: Vec<Ix>,
    /// The values that it reads from memory.
    pub reads: Vec<Read>,
    /// Operations it computes.
    pub ops: Vec<Ix>,
    /// Operations of an element: one that is read in several ways is computed in each.
    pub size: usize,
}

/// The result of the pass.
pub(crate) struct Fusion {
    /// All of them, in an order of dependency.
    pub groups: Vec<Group>,
    /// True for each node that its readers load. (A group computes its own `extra` values, and others load them. Tables
    /// are read from memory in any case.)
    pub stored: Vec<bool>,
}

pub(crate) fn fuse(
    ir: &Ir,
    views: &Views,
    sites: &Sites,
    storage_buffers: usize,
    rates: &Rates,
    backend: Backend,
) -> Fusion {
    let mut pass = Fuser {
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

/// The pass, half way.
struct Fuser<'a> {
    ir: &'a Ir,
    views: &'a Views,
    sites: &'a Sites,
    rates: &'a Rates,
    backend: Backend,
    buffers: usize,
    is_output: Vec<bool>,
    /// True if a heavy kernel can write an elementwise value instead of its own result.
    ends_heavy: Vec<bool>,
    /// The group whose root a value is.
    group_of: Vec<Option<usize>>,
    /// The groups that read a value.
    readers: Vec<Vec<usize>>,
    stored: Vec<bool>,
    groups: Vec<Group>,
}

impl Fuser<'_> {
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
        self.stored[ix] = !self.is_number(ix);
        if let Some(group) = self.group_of_pair(ix) {
            group.extra.push(ix);
            group.ops.push(ix);
            return;
        }
        let mut reads = root_reads(self.ir, self.views, ix);
        reads.retain(|read| read.space == Space::Whole || !self.is_number(read.base));
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

    /// True for a constant that is no output: kernels that compute with it read no memory.
    fn is_number(&self, ix: Ix) -> bool {
        matches!(self.ir.nodes[ix].op, Op::Full(_)) && !self.is_output[ix]
    }

    /// The group of the other result of the same sort, which comes next.
    fn group_of_pair(&mut self, ix: Ix) -> Option<&mut Group> {
        let pair = self.ir.is_pair(ix, ix + 1);
        self.groups.last_mut().filter(|group| pair && group.root == ix + 1)
    }

    /// True if some operation of the group can fail.
    fn can_fail(&self, group: &Group) -> bool {
        group.ops.iter().any(|&ix| self.sites.get(ix).is_some())
    }
}

fn add_reader(readers: &mut Vec<usize>, group: usize) {
    if !readers.contains(&group) {
        readers.push(group);
    }
}

/// The number of operations that a node counts as: ten rounds of Philox, or the steps of a search, are tens of lines.
fn operations(op: &Op) -> usize {
    match op {
        Op::Random(_) | Op::SearchSorted { .. } => 24,
        _ => 1,
    }
}

/// The number of values that these reads are of.
fn values_read(reads: &[Read]) -> usize {
    (0..reads.len()).filter(|&i| reads[..i].iter().all(|read| read.base != reads[i].base)).count()
}
