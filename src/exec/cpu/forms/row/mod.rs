//! The row form: normalisations along one axis.

mod normalize;

use bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;

use self::normalize::normalize;
use crate::base::dtype::DType;
use crate::base::shape::View;
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::operands::{BoundInput, OutputPart, Transposed, for_each_part};
use crate::exec::cpu::tape::{Machine, RegisterBank, Span, TILE, Tape};
use crate::exec::cpu::{ExprHole, StepJob};
use crate::ops::RowKind;
use crate::plan::{RowForm, Space};

pub(crate) fn run(
    job: &StepJob<'_>,
    row: &RowForm,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    let views = job.step.outputs.iter().map(|output| &output.view);
    if views.clone().all(View::is_contiguous) {
        rows(job, row, outputs);
        return Ok(());
    }
    let ordered: Result<SmallVec<[HostBuffer; 1]>, DeviceError> =
        outputs.iter().map(|output| HostBuffer::try_zeroed(output.dtype(), output.len())).collect();
    let mut ordered = ordered?;
    rows(job, row, &mut ordered);
    for ((view, from), to) in views.zip(&ordered).zip(outputs) {
        permute(from, view, to);
    }
    Ok(())
}

/// Computes the outputs in row-major order of the form's space.
fn rows(job: &StepJob<'_>, row: &RowForm, outputs: &mut [HostBuffer]) {
    let step = job.step;
    let inputs = job.inputs(Space::Main);
    let before = job.tape(ExprHole::Before, &[row.prologue], &inputs);
    let after = job.tape(ExprHole::After, &job.roots(), &inputs);
    let epsilon = row.epsilon.map_or(0.0, |at| step.scalars[usize::from(at)].value());
    let len = outputs[0].len();
    let flops = before.flops() + after.flops() + row.kind.def().flops;
    // Several short rows are taken at a time.
    let block = row.len * (TILE / row.len).max(1);
    // Normalised rows may be the result unchanged.
    let unchanged = outputs.len() == 1 && after.is_acc(0);
    for_each_part(
        outputs,
        len as u64 * flops,
        block,
        || RowWorker::new(row, epsilon, before, (!unchanged).then_some(after)),
        |worker, mut part| {
            for at in (0..part.len).step_by(block) {
                let count = block.min(part.len - at);
                worker.block(&inputs, &mut part, at, count);
            }
        },
    );
}

/// The machines and buffers of one thread.
struct RowWorker<'t> {
    kind: RowKind,
    epsilon: f64,
    /// Elements of a row.
    len: usize,
    before: Machine<'t>,
    /// The machine of the epilogue; `None` if the normalised rows are the result.
    after: Option<Machine<'t>>,
    /// Rows that the prologue computed, and normalised rows that do not lie in the result.
    rows: RegisterBank,
}

impl<'t> RowWorker<'t> {
    fn new(row: &RowForm, epsilon: f64, before: &'t Tape, after: Option<&'t Tape>) -> Self {
        Self {
            kind: row.kind,
            epsilon,
            len: row.len,
            before: Machine::new(before),
            after: after.map(|after| Machine::for_walk(after, row.len, 0, 0)),
            rows: RegisterBank::of(0),
        }
    }

    /// Computes the results of `count` elements of whole rows, which begin `at` elements into the part. Operands in
    /// memory are read from there, once.
    fn block(
        &mut self,
        inputs: &[Option<BoundInput<'_>>],
        part: &mut OutputPart<'_>,
        at: usize,
        count: usize,
    ) {
        let start = part.start + at;
        let reads_memory = self.before.reads_memory(0);
        let in_place = self.after.is_none() && part.outputs[0].0 == DType::F32;
        let [computed, normal] = match reads_memory && in_place {
            true => Default::default(),
            false => self.rows.areas(count),
        };
        let span = Span { inputs, start, len: count, acc: &[] };
        let from = match reads_memory {
            true => self.before.root(0, &span),
            false => {
                fill(&mut self.before, inputs, start, computed);
                computed
            }
        };
        let to = if in_place { part.words(0, at, count) } else { &mut *normal };
        normalize(self.kind, self.epsilon, self.len, cast_slice(from), cast_slice_mut(to));
        match &mut self.after {
            Some(after) => write(after, inputs, part, at, normal),
            None if in_place => {}
            None => part.store(0, at, normal),
        }
    }
}

/// Fills `lanes` with the prologue's values from `start` on.
pub(crate) fn fill(
    machine: &mut Machine<'_>,
    inputs: &[Option<BoundInput<'_>>],
    start: usize,
    lanes: &mut [u32],
) {
    if let Some(input) = machine.fetched(inputs) {
        return input.fetch(start, lanes);
    }
    for (i, tile) in lanes.chunks_mut(TILE).enumerate() {
        let span = Span { inputs, start: start + i * TILE, len: tile.len(), acc: &[] };
        machine.fill(&span, tile);
    }
}

/// Computes the outputs from the form's values `lanes`, which begin `at` elements into the part.
pub(crate) fn write(
    machine: &mut Machine<'_>,
    inputs: &[Option<BoundInput<'_>>],
    part: &mut OutputPart<'_>,
    at: usize,
    lanes: &[u32],
) {
    let tile = machine.lanes();
    for (i, acc) in lanes.chunks(tile).enumerate() {
        let at = at + i * tile;
        part.write_tile(machine, &Span { inputs, start: part.start + at, len: acc.len(), acc }, at);
    }
}

/// Copies `from[i]` to `to[view(i)]` for each i.
pub(crate) fn permute(from: &HostBuffer, view: &View, to: &mut HostBuffer) {
    let (len, view) = (to.len(), inverse(view));
    if let Some(transposed) = Transposed::of(&view, from) {
        return transposed.copy_to(to);
    }
    let input = BoundInput::elements(&view, from);
    for_each_part(
        std::slice::from_mut(to),
        len as u64 * 4,
        TILE,
        || vec![0; TILE],
        |lanes, mut part| {
            for at in (0..part.len).step_by(TILE) {
                let lanes = &mut lanes[..TILE.min(part.len - at)];
                input.fetch(part.start + at, lanes);
                part.store(0, at, lanes);
            }
        },
    );
}

/// Returns the inverse of `view`, a permutation. It maps an element of a value to the position of its point.
fn inverse(view: &View) -> View {
    let positions = View::contiguous(&view.shape());
    let mut axes: SmallVec<[usize; 8]> =
        (0..view.dims.len()).filter(|&axis| view.dims[axis] > 1).collect();
    axes.sort_by_key(|&axis| std::cmp::Reverse(view.strides[axis]));
    View {
        dims: axes.iter().map(|&axis| view.dims[axis]).collect(),
        strides: axes.iter().map(|&axis| positions.strides[axis]).collect(),
        offset: 0,
    }
}
