//! The sort form: rows in the order of their keys.

use super::order::{Extremum, KeyOrder};
use super::row::{fill, permute};
use crate::base::dtype::Ty;
use crate::error::DeviceError;
use crate::exec::cpu::operands::{for_each, for_each_part, parts};
use crate::exec::cpu::tape::{Machine, TILE};
use crate::exec::cpu::{ExprHole, StepJob};
use crate::exec::{HostBuffer, memory, threads};
use crate::plan::{SortForm, Space, StepOutput};

pub(crate) fn run(
    job: &StepJob<'_>,
    sort: &SortForm,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    let keys = SortKeys::new(job.step.expr.ty(sort.prologue), sort.descending);
    let mut entries = entries(job, sort, keys)?;
    order(&mut entries, sort)?;
    for (output, to) in job.step.outputs.iter().zip(outputs) {
        if output.view.is_contiguous() {
            write(sort, keys, &entries, output, to);
        } else {
            let mut ordered = HostBuffer::try_zeroed(to.dtype(), to.len())?;
            write(sort, keys, &entries, output, &mut ordered);
            permute(&ordered, &output.view, to);
        }
    }
    Ok(())
}

/// The order of the rows, as a map from elements to numbers in that order.
#[derive(Clone, Copy)]
struct SortKeys {
    order: KeyOrder,
    flip: u32,
}

impl SortKeys {
    fn new(ty: Ty, descending: bool) -> Self {
        let flip = if descending { u32::MAX } else { 0 };
        Self { order: KeyOrder::by_number(ty, Extremum::Greatest), flip }
    }

    /// Packs a key and the position of its element, which orders equal keys.
    fn entry(self, lane: u32, position: u32) -> u64 {
        u64::from(self.order.key(lane) ^ self.flip) << 32 | u64::from(position)
    }

    fn lane(self, entry: u64) -> u32 {
        self.order.lane((entry >> 32) as u32 ^ self.flip)
    }
}

/// The entries of all elements in the order of the form's space.
fn entries(job: &StepJob<'_>, sort: &SortForm, keys: SortKeys) -> Result<Vec<u64>, DeviceError> {
    const BLOCK: usize = 16 * TILE;
    let step = job.step;
    let inputs = job.inputs(Space::Main);
    let tape = job.tape(ExprHole::Before, &[sort.prologue], &inputs);
    let len = step.outputs[0].view.shape().elements() / sort.count * sort.len;
    let mut entries = memory::try_zeroed(len)?;
    let fill_block =
        |(machine, lanes): &mut (Machine<'_>, Vec<u32>), start: usize, to: &mut [u64]| {
            let lanes = &mut lanes[..to.len()];
            fill(machine, &inputs, start, lanes);
            for (at, (entry, &lane)) in (start..).zip(to.iter_mut().zip(&*lanes)) {
                *entry = keys.entry(lane, (at % sort.len) as u32);
            }
        };
    let part = len.div_ceil(parts(len as u64 * (tape.flops() + 2))).next_multiple_of(BLOCK);
    for_each(
        entries.chunks_mut(part).enumerate().collect(),
        || (Machine::new(tape), vec![0; BLOCK]),
        |state, (index, part_entries)| {
            let starts = (index * part..).step_by(BLOCK);
            let blocks = starts.zip(part_entries.chunks_mut(BLOCK));
            blocks.for_each(|(start, to)| fill_block(state, start, to));
        },
    );
    Ok(entries)
}

/// Brings the first `count` entries of each row in order to its front.
fn order(entries: &mut [u64], sort: &SortForm) -> Result<(), DeviceError> {
    let (rows, threads) = (entries.len() / sort.len, threads::count());
    let parts = parts(entries.len() as u64 * u64::from(sort.len.ilog2() + 1));
    let select = |row: &mut [u64]| {
        if sort.count < row.len() {
            row.select_nth_unstable(sort.count - 1);
        }
    };
    // All threads share each row if there are few rows.
    if parts > 1 && rows < threads {
        for row in entries.chunks_mut(sort.len) {
            select(row);
            order_together(&mut row[..sort.count], threads)?;
        }
        return Ok(());
    }
    for_each(
        entries.chunks_mut((rows.div_ceil(parts) * sort.len).max(1)).collect(),
        || (),
        |(), rows| {
            for row in rows.chunks_mut(sort.len) {
                select(row);
                row[..sort.count].sort_unstable();
            }
        },
    );
    Ok(())
}

/// Sorts different `entries` in `parts` that threads share: each thread sorts a share, then merges the entries of all shares
/// between two bounds.
fn order_together(entries: &mut [u64], parts: usize) -> Result<(), DeviceError> {
    /// Entries of each share from which the bounds are taken.
    const SAMPLES: usize = 256;
    let mut merged = memory::try_zeroed(entries.len())?;
    let mut shares: Vec<_> = entries.chunks_mut(entries.len().div_ceil(parts).max(1)).collect();
    for_each(shares.iter_mut().collect(), || (), |(), share| share.sort_unstable());
    let mut shares: Vec<&[u64]> = shares.into_iter().map(|share| &*share).collect();
    let samples =
        shares.iter().flat_map(|share| share.iter().step_by(share.len().div_ceil(SAMPLES)));
    let mut samples: Vec<u64> = samples.copied().collect();
    samples.sort_unstable();
    let mut ranges = Vec::new();
    let mut free = &mut merged[..];
    for part in 1..=parts {
        let bound = samples.get(part * samples.len() / parts);
        let pieces: Vec<&[u64]> = shares
            .iter_mut()
            .map(|share| {
                let count = bound.map_or(share.len(), |bound| share.partition_point(|e| e < bound));
                share.split_off(..count).unwrap_or_default()
            })
            .collect();
        let (range, after) = free.split_at_mut(pieces.iter().map(|piece| piece.len()).sum());
        free = after;
        ranges.push((range, pieces));
    }
    for_each(
        ranges,
        || (),
        |(), (range, pieces)| {
            let positions = range.iter_mut().zip(pieces.into_iter().flatten());
            positions.for_each(|(position, entry)| *position = *entry);
            // The stable sort finds the sorted pieces and merges them.
            range.sort();
        },
    );
    memory::copy(&merged, entries);
    Ok(())
}

/// Stores the sorted elements, or their positions.
fn write(
    sort: &SortForm,
    keys: SortKeys,
    entries: &[u64],
    output: &StepOutput,
    to: &mut HostBuffer,
) {
    let len = to.len();
    let values = output.root == sort.prologue;
    for_each_part(
        std::slice::from_mut(to),
        4 * len as u64,
        TILE,
        || vec![0; TILE],
        |lanes, mut part| {
            for at in (0..part.len).step_by(TILE) {
                let lanes = &mut lanes[..TILE.min(part.len - at)];
                for (index, lane) in (part.start + at..).zip(&mut *lanes) {
                    let entry = entries[index / sort.count * sort.len + index % sort.count];
                    *lane = if values { keys.lane(entry) } else { entry as u32 };
                }
                part.store(0, at, lanes);
            }
        },
    );
}
