//! Choices of a kernel's shape that depend on sizes only: tiles and splits.

use super::attention;
use super::product::{self, ProductSize};
use crate::base::shape::{View, points};
use crate::cost::Limits;
use crate::plan::Target;
use crate::plan::forms::schedule_types::{ReduceLayout, ReduceSchedule, SortSchedule};
use crate::plan::forms::{
    AttentionForm, Form, MatMulForm, ReduceForm, RowForm, ScanForm, SortForm,
};
use crate::plan::step::{Scratch, Step};

/// Threads that fill a large GPU, about half of what the 132 cores of an H200 hold; a reduction of columns with fewer
/// results is split until it has as many. More of them have less to add each, and leave more partial results.
const FILL: usize = 1 << 17;
/// Columns from which on neighbouring threads read neighbouring elements of one row: 32 of 4 bytes are a cache line.
const SIDE_BY_SIDE: usize = 32;
/// Columns of this length are read row by row even where they are few: a second dispatch pays, since there are 512 parts
/// of 64 elements. Of shorter ones, too few threads would each read a small part of every line.
const LONG_COLUMN: usize = 1 << 15;
/// Parts of a column, at most: where there is one result, the 256 threads that put parts together have 32 each. With
/// more, that takes longer, on one core; with fewer, others have nothing to do before.
const MOST_PARTS: usize = 8192;
/// Workgroups that fill a large GPU: of 256 threads, an H200's 132 cores hold 1056.
const FILL_GROUPS: usize = 1024;
/// The longest row that a workgroup's threads hold in their registers: 64 elements each, a quarter of the registers that
/// a thread may have. Longer rows are read twice.
pub(crate) const ROW_HELD: usize = 16_384;
/// Threads of a workgroup that share a row: the most that WebGPU promises.
const GROUP: usize = 256;
/// Rows up to this length are sorted in workgroup memory, a key and a position each: 16 KiB, all that WebGPU promises.
const SORT_GROUP: usize = 2048;
/// The first so many of a longer row are selected. A workgroup holds 1024 elements, of which 512 come in a round; with
/// more to keep, less would come between two sorts of what is held.
const SORT_SELECTED: usize = 256;
/// Workgroups that select: two on each of an H200's 132 cores.
const SELECT_GROUPS: usize = 264;
/// The fewest elements that are worth a workgroup that selects: eight rounds. With fewer, sorts of what is held, and the
/// candidates of all workgroups, outweigh what is read.
const SELECT_LEAST: usize = 4096;
/// Counts that a workgroup keeps to sort by votes: of 256 digits for each of its eight subgroups of 32.
pub(crate) const SORT_COUNTS: u32 = 2048;
/// Workgroup memory that a sort by votes may take: 8 KiB of counts, 12 of keys, 1 of shifts, and what subgroups hand to
/// each other. More would halve the workgroups on a core of an H200.
const SORT_BYTES: u32 = 24 << 10;
/// Reduced rows up to this length are one thread's work. In longer ones, what neighbouring threads read lies ever farther
/// apart; shorter ones would be shared by threads that have an element each.
const SHORT: usize = 8;

/// Chooses tiles and splits, and asks for the memory of partial results.
pub(crate) fn tune(step: &mut Step, target: &Target) {
    let walks_columns = inner_is_strided(step);
    let cores = target.profile.cores as usize;
    let across = step.outputs[0].view.strides.last().is_some_and(|stride| stride.abs() > 1);
    match &mut step.form {
        Form::Reduce(ReduceForm { outer, inner, combine, schedule, .. }) => {
            let (outer, inner) = (points(outer), points(inner));
            *schedule = reduce_schedule(outer, inner, walks_columns, cores);
            if schedule.parts > 1 {
                let words = (schedule.parts * outer * combine.words()) as u64;
                step.scratch = Some(Scratch { words, slot: 0 });
            }
        }
        Form::MatMul(MatMulForm { batch, m, n, k, spread, precision, schedule, .. }) => {
            let windows = spread.is_some();
            let size = ProductSize { count: points(batch), m: *m, n: *n, k: *k, windows };
            *schedule = product::schedule(&size, *precision, target);
            if schedule.parts > 1 {
                let words = points(&[schedule.parts, size.count, *m, *n]) as u64;
                step.scratch = Some(Scratch { words, slot: 0 });
            }
        }
        Form::Row(RowForm { kind, outer, len, parts, .. }) => {
            let rows = points(outer);
            *parts = row_parts(rows, *len, across);
            if *parts > 1 {
                let words = (rows * *parts * kind.words()) as u64;
                step.scratch = Some(Scratch { words, slot: 0 });
            }
        }
        Form::Scan(ScanForm { outer, len, parts, .. }) => {
            let rows = points(outer);
            *parts = row_parts(rows, *len, across);
            if *parts > 1 {
                step.scratch = Some(Scratch { words: (rows * *parts) as u64, slot: 0 });
            }
        }
        Form::Sort(SortForm { outer, len, count, prologue, schedule, .. }) => {
            let rows = points(outer);
            *schedule = sort_schedule(rows, *len, *count, &target.limits);
            let positions = step.outputs.iter().any(|output| output.root != *prologue);
            step.scratch = sort_words(*schedule, [rows, *len, *count], positions);
        }
        Form::Attention(form) => {
            form.schedule = attention::schedule(form, &target.limits);
            let AttentionForm { batch, queries, out, schedule, .. } = &*form;
            if schedule.parts > 1 {
                let words = points(&[schedule.parts, points(batch), *queries, *out + 2]) as u64;
                step.scratch = Some(Scratch { words, slot: 0 });
            }
        }
        Form::Map { .. } | Form::Own(_) => {}
    }
}

fn reduce_schedule(
    outer: usize,
    inner: usize,
    walks_columns: bool,
    cores: usize,
) -> ReduceSchedule {
    if inner <= SHORT || walks_columns && (outer >= SIDE_BY_SIDE || inner >= LONG_COLUMN) {
        // At least 64 elements a thread, so that parts pay for their second dispatch.
        let parts = FILL.div_ceil(outer.max(1)).min(inner / 64).clamp(1, MOST_PARTS);
        return ReduceSchedule { layout: ReduceLayout::Thread, parts };
    }
    // As many workgroups as run at once, so that none comes late.
    let wanted = (4 * cores).div_ceil(outer.max(1));
    let parts = wanted.min(inner / (GROUP * 16)).max(1);
    ReduceSchedule { layout: ReduceLayout::Group, parts }
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
            let digits = SORT_COUNTS / (GROUP as u32 / subgroups.least);
            SortSchedule::Digits { bits: digits.ilog2().min(8), votes: true }
        }
        None => SortSchedule::Digits { bits: 2, votes: false },
    }
}

/// Memory for candidates with their positions, or for keys (and positions) before and after a digit and for counts.
fn sort_words(
    schedule: SortSchedule,
    [rows, len, count]: [usize; 3],
    positions: bool,
) -> Option<Scratch> {
    let words = match schedule {
        SortSchedule::Group | SortSchedule::Select { parts: 1 } => return None,
        SortSchedule::Select { parts } => rows * parts * count * 2,
        SortSchedule::Digits { bits, .. } => {
            let tiles = len.div_ceil(schedule.tile());
            let copies = if positions { 4 } else { 2 };
            rows * (len * copies + (1 << bits) * (tiles + 1))
        }
    };
    Some(Scratch { words: words as u64, slot: 0 })
}

/// Parts of each row, so that long rows, or columns (`across`), fill a GPU however few they are.
fn row_parts(rows: usize, len: usize, across: bool) -> usize {
    let (groups, held, least) =
        if across { (rows.div_ceil(32), 128, 128) } else { (rows, ROW_HELD, GROUP * 16) };
    if len <= held || groups >= FILL_GROUPS {
        return 1;
    }
    (2 * FILL_GROUPS).div_ceil(groups.max(1)).min(len / least).max(1)
}

/// Whether the prologue's largest operand lies so that neighbouring results, not neighbouring
/// elements of one row, are close in memory: as columns do, and as windows do that touch or overlap.
fn inner_is_strided(step: &Step) -> bool {
    let Form::Reduce(ReduceForm { outer, inner, prologue, .. }) = &step.form else { return false };
    let span = |view: &View| {
        view.dims
            .iter()
            .zip(&view.strides)
            .filter(|(_, s)| **s != 0)
            .fold(1_usize, |span, (&d, _)| span.saturating_mul(d))
    };
    let loads = step.expr.loads(&[*prologue]);
    let largest = loads.iter().map(|&k| &step.operands[k].view).max_by_key(|view| span(view));
    let Some(view) = largest else { return false };
    // The stride and length of the nearest axis.
    let nearest = |range: std::ops::Range<usize>| {
        let moving = range.filter(|&axis| view.dims[axis] > 1 && view.strides[axis] != 0);
        let axes = moving.map(|axis| (view.strides[axis].unsigned_abs(), view.dims[axis]));
        axes.min_by_key(|&(stride, _)| stride).unwrap_or((u64::MAX, 1))
    };
    let (between, _) = nearest(0..outer.len());
    let (stride, len) = nearest(outer.len()..outer.len() + inner.len());
    let windows = len < points(inner) && between <= stride.saturating_mul(len as u64);
    between < stride || windows && between != u64::MAX
}
