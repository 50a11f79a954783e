//! The form of sorts.

use super::axes::Dims;
use super::kernel_form::{KernelForm, Measure, WORKGROUP_THREADS, join};
use super::tally::{Tally, count};
use crate::base::dtype::DType;
use crate::base::shape::points;
use crate::cost::Limits;
use crate::expr::Ref;
use crate::ops::key_bits;
use crate::plan::step_parts::{Space, StepContext};
use crate::plan::target::Target;

/// Rows up to this length are sorted in workgroup memory, a key and a position each: 16 KiB, all that WebGPU promises.
const SORT_GROUP: usize = 2048;
/// The first so many of a longer row are selected. A workgroup holds 1024 elements, of which 512 come in a round; with
/// more to keep, fewer would come between two sorts of the held ones.
const SORT_SELECTED: usize = 256;
/// Workgroups that select: two on each of an H200's 132 cores.
const SELECT_GROUPS: usize = 264;
/// The fewest elements that are worth a workgroup that selects: eight rounds. With fewer, the sorts of held elements
/// and of the candidates of all workgroups outweigh the reads.
const SELECT_LEAST: usize = 4096;
/// Workgroup memory that a sort by votes may take: 8 KiB of counts, 12 of keys, 1 of shifts, and what subgroups hand to
/// each other. More would halve the workgroups on a core of an H200.
const SORT_BYTES: u32 = 24 << 10;
/// The cost of moving an element of a sort, in flops: estimated, not measured.
const SORT_MOVE: f64 = 16.0;

/// `prologue`, of type `dtype`, over `outer ++ [len]`, in order along `len`; outputs over `outer ++ [count]`: what
/// their roots, which are over the main space, are at the elements of the first `count` ranks. A root is the
/// prologue, or else the position along `len`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortForm {
    pub outer: Dims,
    pub len: usize,
    pub count: usize,
    pub dtype: DType,
    pub prologue: Ref,
    pub descending: bool,
    pub schedule: SortSchedule,
}

/// The schedule of a sort on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SortSchedule {
    /// A workgroup sorts whole rows in its memory.
    Group,
    /// A workgroup finds the first few of a row or, with more than one, of each of this many parts, among which a
    /// second dispatch selects.
    Select { parts: usize },
    /// A radix sort by digits of so many bits: elements move through the scratch memory once for each digit. Votes of
    /// subgroups, or counters of each thread, find the elements of equal digits.
    Digits { bits: u32, votes: bool },
}

impl SortSchedule {
    /// Elements that a workgroup takes of a row.
    pub fn tile(self) -> usize {
        WORKGROUP_THREADS * if let Self::Digits { votes: true, .. } = self { 12 } else { 8 }
    }

    /// The number of GPU dispatches to sort elements of `dtype`.
    pub fn dispatches(self, dtype: DType) -> u64 {
        match self {
            Self::Group | Self::Select { parts: 1 } => 1,
            Self::Select { .. } => 2,
            Self::Digits { bits, .. } => 3 * key_bits(dtype).len().div_ceil(bits as usize) as u64,
        }
    }
}

impl SortForm {
    /// Counts that a workgroup keeps to sort by votes: of 256 digits for each of its eight subgroups of 32.
    pub const COUNTS: u32 = 2048;
}

impl KernelForm for SortForm {
    fn name(&self) -> &'static str {
        match self.schedule {
            SortSchedule::Select { .. } => "sort, selection",
            SortSchedule::Group | SortSchedule::Digits { .. } => "sort",
        }
    }

    fn dims(&self, space: Space) -> Vec<usize> {
        let len = if space == Space::Main { self.len } else { self.count };
        join(&self.outer, &[len])
    }

    fn work(&self, tally: &mut Tally<'_>) {
        let elements = count(&self.outer) * self.len as f64;
        tally.evaluate(&[self.prologue], elements);
        // Elements move about as often as a merge sort would compare them.
        let moves = f64::from(usize::BITS - self.len.leading_zeros());
        tally.work.arithmetic += elements * moves * SORT_MOVE;
    }

    fn tune(&mut self, _context: &StepContext<'_>, target: &Target) {
        self.schedule = sort_schedule(points(&self.outer), self.len, self.count, &target.limits);
    }

    /// Candidates with their positions, or keys (and positions) before and after a digit and counts.
    fn scratch_words(&self, context: &StepContext<'_>) -> usize {
        let (rows, len) = (points(&self.outer), self.len);
        match self.schedule {
            SortSchedule::Group | SortSchedule::Select { parts: 1 } => 0,
            SortSchedule::Select { parts } => rows * parts * self.count * 2,
            SortSchedule::Digits { bits, .. } => {
                let tiles = len.div_ceil(self.schedule.tile());
                let positions = context.outputs.iter().any(|output| output.root != self.prologue);
                rows * (len * if positions { 4 } else { 2 } + (1 << bits) * (tiles + 1))
            }
        }
    }

    fn dispatches(&self, _has_scratch: bool) -> u64 {
        self.schedule.dispatches(self.dtype)
    }

    fn measure(&self) -> Measure {
        Measure::Elements(self.points())
    }
}

/// Rows that fit are sorted in workgroup memory, the first few of longer ones are selected.
fn sort_schedule(rows: usize, len: usize, count: usize, limits: &Limits) -> SortSchedule {
    if len <= SORT_GROUP {
        return SortSchedule::Group;
    }
    if count <= SORT_SELECTED {
        let wanted = SELECT_GROUPS.div_ceil(rows.max(1));
        return SortSchedule::Select { parts: wanted.min(len / SELECT_LEAST).max(1) };
    }
    let votes = limits.subgroups.filter(|_| limits.workgroup_bytes >= SORT_BYTES);
    match votes {
        // Each subgroup of a workgroup has a count of each digit.
        Some(subgroups) => {
            let digits = SortForm::COUNTS / (WORKGROUP_THREADS as u32 / subgroups.least);
            SortSchedule::Digits { bits: digits.ilog2().min(8), votes: true }
        }
        None => SortSchedule::Digits { bits: 2, votes: false },
    }
}
