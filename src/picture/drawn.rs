//! The operations and the kernels that are drawn, each for all that are alike, with their links.

use super::data::{Fate, Operation, Picture};
use super::fold::{Item, fold, fold_or_join, hash};

/// Operations, and kernels, that are drawn at most.
const MOST: usize = 160;
/// Items that one is linked to at most.
const LINKS: usize = 32;
/// Lines to an item at most, and to one of many where items are joined.
const LINES: usize = 32;
const FEW_LINES: usize = 3;

/// A folded picture.
pub(super) struct Drawn<'a> {
    pub picture: &'a Picture,
    pub operations: Vec<Item>,
    pub kernels: Vec<Item>,
    /// The item of each operation and of each kernel.
    operation_item: Vec<usize>,
    kernel_item: Vec<usize>,
}

impl<'a> Drawn<'a> {
    pub fn new(picture: &'a Picture) -> Self {
        let operations = folded(|precise| operation_kinds(picture, precise));
        let kernels = folded(|precise| kernel_kinds(picture, precise));
        Self {
            operation_item: item_of(&operations, picture.operations.len()),
            kernel_item: item_of(&kernels, picture.kernels.len()),
            picture,
            operations,
            kernels,
        }
    }

    /// The items of kernels behind an item of operations, each once.
    pub fn kernels_of(&self, item: &Item) -> Vec<usize> {
        let members = item.members.iter().map(|&at| &self.picture.operations[at]);
        let items = members.flat_map(|op| &op.kernels).map(|&kernel| self.kernel_item[kernel]);
        few(items.collect())
    }

    /// The items of operations that the kernels of each item compute, each once.
    pub fn operations_of_kernels(&self) -> Vec<Vec<usize>> {
        let mut of = vec![Vec::new(); self.kernels.len()];
        for (at, operation) in self.picture.operations.iter().enumerate() {
            if operation.fate == Fate::Computed {
                let items = operation.kernels.iter().map(|&kernel| self.kernel_item[kernel]);
                items.for_each(|item: usize| of[item].push(self.operation_item[at]));
            }
        }
        of.into_iter().map(few).collect()
    }

    /// The lines between items of operations, from an operand to a later user, each once. A line back is left out: it
    /// leads from one copy of a repeated block to the next. An item with very many operands has lines to the nearest.
    pub fn lines(&self) -> Vec<(usize, usize)> {
        let operations = self.picture.operations.iter().enumerate();
        let all = operations.flat_map(|(at, operation)| {
            let to = self.operation_item[at];
            operation.inputs.iter().map(move |&input| (self.operation_item[input], to))
        });
        let mut lines: Vec<(usize, usize)> = all.filter(|(from, to)| from < to).collect();
        lines.sort_unstable();
        lines.dedup();
        let most = if self.is_joined() { FEW_LINES } else { LINES };
        let mut drawn = vec![0; self.operations.len()];
        lines.reverse();
        lines.retain(|&(_, to)| {
            drawn[to] += 1;
            drawn[to] <= most
        });
        lines
    }

    /// True if items were joined that only follow each other, so that not all of their links are drawn.
    pub fn is_joined(&self) -> bool {
        self.operations.iter().chain(&self.kernels).any(|item| !item.is_repeat)
    }

    /// The item of a kernel.
    pub fn kernel_item(&self, kernel: usize) -> usize {
        self.kernel_item[kernel]
    }

    /// The name of an item of operations on the page.
    pub fn operation_id(&self, item: usize) -> String {
        format!("o{}", self.operations[item].members[0] + 1)
    }

    /// The name of an item of kernels on the page.
    pub fn kernel_id(&self, item: usize) -> String {
        format!("k{}", self.kernels[item].members[0] + 1)
    }

    /// The colour of an item of kernels, in degrees: neighbours differ much.
    pub fn hue(item: usize) -> usize {
        item * 137 % 360
    }
}

/// Each of the items once; of very many the first.
fn few(mut items: Vec<usize>) -> Vec<usize> {
    items.sort_unstable();
    items.dedup();
    items.truncate(LINKS);
    items
}

fn item_of(items: &[Item], count: usize) -> Vec<usize> {
    let mut of = vec![0; count];
    for (item, Item { members, .. }) in items.iter().enumerate() {
        members.iter().for_each(|&member| of[member] = item);
    }
    of
}

/// Folds by precise kinds, or by those that leave out the types of values if too many items are left.
fn folded(kinds: impl Fn(bool) -> Vec<u64>) -> Vec<Item> {
    fold(&kinds(true), MOST).unwrap_or_else(|| fold_or_join(&kinds(false), MOST))
}

/// Equal numbers for operations that do the same with operands alike; of the same types if they are `precise`.
fn operation_kinds(picture: &Picture, precise: bool) -> Vec<u64> {
    let all = &picture.operations;
    let ty = |op: &Operation| precise.then(|| hash(&op.ty));
    let kind = |op: &Operation| {
        let inputs: Vec<_> = op.inputs.iter().map(|&at| (all[at].name, ty(&all[at]))).collect();
        hash(&(op.name, op.method, ty(op), op.fate, op.is_result, inputs))
    };
    all.iter().map(kind).collect()
}

/// Equal numbers for kernels that compute the same on the same side; from values of the same types if they are
/// `precise`.
fn kernel_kinds(picture: &Picture, precise: bool) -> Vec<u64> {
    let kinds = picture.parts.iter().enumerate().flat_map(|(part_at, part)| {
        picture.kernels[part.kernels.clone()].iter().map(move |kernel| {
            let ty = |&value: &usize| precise.then(|| hash(&part.values[value].ty));
            let reads: Vec<_> = kernel.reads.iter().map(ty).collect();
            let writes: Vec<_> = kernel.writes.iter().map(ty).collect();
            hash(&(part_at, &kernel.label, kernel.form, reads, writes))
        })
    });
    kinds.collect()
}
