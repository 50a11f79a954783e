//! The sort form: rows in the order of their keys.

use rayon::prelude::*;

use super::order::{Extremum, KeyOrder};
use super::row::{fill, permute};
use crate::base::dtype::Ty;
use crate::error::DeviceError;
use crate::exec::cpu::operands::{for_each, parts, split, store};
use crate::exec::cpu::tape::{Machine, TILE};
use crate::exec::cpu::{ExprHole, Job};
use crate::exec::{HostBuffer, memory, threads};
use crate::plan::{SortForm, Space, StepOutput};

pub(crate) fn run(
    job: &Job<'_>,
    sort: &SortForm,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    let keys = SortKeys::new(job.step.expr.ty(sort.prologue), sort.descending);
    let mut entries = entries(job, sort, keys)?;
    let cost = entries.len() as u64 * u64::from(sort.len.ilog2() + 1);
    if parts(cost) == 1 {
        entries.chunks_mut(sort.len).for_each(|row| order_row(row, sort.count, false));
    } else {
        // All threads share each row if there are few rows.
        let parallel = entries.len() / sort.len < threads::count();
        entries.par_chunks_mut(sort.len).for_each(|row| order_row(row, sort.count, parallel));
    }
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
fn entries(job: &Job<'_>, sort: &SortForm, keys: SortKeys) -> Result<Vec<u64>, DeviceError> {
    const BLOCK: usize = 16 * TILE;
    let step = job.step;
    let inputs = job.inputs(Space::Main);
    let tape = job.tape(ExprHole::Before, &[sort.prologue], &inputs);
    let len = step.outputs[0].view.shape().elements() / sort.count * sort.len;
    let mut entries = memory::try_zeroed(len)?;
    let fill_block =
        |(machine, lanes): &mut (Machine<'_>, Vec<u32>), block: usize, to: &mut [u64]| {
            let start = block * BLOCK;
            let lanes = &mut lanes[..to.len()];
            fill(machine, &inputs, start, lanes);
            for (at, (entry, &lane)) in (start..).zip(to.iter_mut().zip(&*lanes)) {
                *entry = keys.entry(lane, (at % sort.len) as u32);
            }
        };
    let init = || (Machine::new(tape), vec![0; BLOCK]);
    if parts(len as u64 * (tape.flops() + 2)) == 1 {
        let mut state = init();
        let blocks = entries.chunks_mut(BLOCK).enumerate();
        blocks.for_each(|(block, to)| fill_block(&mut state, block, to));
    } else {
        let blocks = entries.par_chunks_mut(BLOCK).enumerate();
        blocks.for_each_init(init, |state, (block, to)| fill_block(state, block, to));
    }
    Ok(entries)
}

/// Brings the first `count` entries in order to the front. All threads share the row if `parallel`.
fn order_row(row: &mut [u64], count: usize, parallel: bool) {
    if count < row.len() {
        row.select_nth_unstable(count - 1);
    }
    if parallel {
        row[..count].par_sort_unstable();
    } else {
        row[..count].sort_unstable();
    }
}

/// Stores the sorted elements, or their positions.
fn write(
    sort: &SortForm,
    keys: SortKeys,
    entries: &[u64],
    output: &StepOutput,
    to: &mut HostBuffer,
) {
    let (dtype, len) = (to.dtype(), to.len());
    let values = output.root == sort.prologue;
    for_each(
        split(std::slice::from_mut(to), len, parts(4 * len as u64), TILE),
        || vec![0; TILE],
        |lanes, mut chunk| {
            for at in (0..chunk.len).step_by(TILE) {
                let lanes = &mut lanes[..TILE.min(chunk.len - at)];
                for (index, lane) in (chunk.start + at..).zip(&mut *lanes) {
                    let entry = entries[index / sort.count * sort.len + index % sort.count];
                    *lane = if values { keys.lane(entry) } else { entry as u32 };
                }
                let range = at * dtype.size()..(at + lanes.len()) * dtype.size();
                store(dtype, lanes, &mut chunk.outputs[0].1[range]);
            }
        },
    );
}
