//! The row form: normalisations along one axis.

use multiversion::multiversion;
use smallvec::{SmallVec, smallvec};

use super::input::Input;
use super::machine::{Machine, Span};
use super::output::{Chunk, for_each, parts, split, store};
use super::tape::TILE;
use super::{Hole, Job, math, wide};
use crate::dtype::DType;
use crate::expr::Ref;
use crate::ops::RowKind;
use crate::plan::Space;
use crate::run::HostBuffer;
use crate::shape::View;

/// The form's description.
pub(super) struct Row {
    pub kind: RowKind,
    pub len: usize,
    pub prologue: Ref,
    pub epsilon: Option<u16>,
}

/// Computes the outputs of a row form.
pub(super) fn run(job: &Job<'_>, row: &Row, outputs: &mut [HostBuffer]) {
    let views = job.step.outputs.iter().map(|output| &output.view);
    if views.clone().all(View::is_contiguous) {
        return rows(job, row, outputs);
    }
    let mut ordered: SmallVec<[HostBuffer; 1]> =
        outputs.iter().map(|output| HostBuffer::zeroed(output.dtype(), output.len())).collect();
    rows(job, row, &mut ordered);
    for ((view, from), to) in views.zip(&ordered).zip(outputs) {
        permute(from, view, to);
    }
}

/// Computes the outputs in row-major order of the form's space.
fn rows(job: &Job<'_>, row: &Row, outputs: &mut [HostBuffer]) {
    let step = job.step;
    let inputs = job.inputs(Space::Main, Clone::clone);
    let before = job.tape(Hole::Before, &[row.prologue], &inputs);
    let after = job.tape(Hole::After, &job.roots(), &inputs);
    let epsilon = row.epsilon.map_or(0.0, |at| step.scalars[usize::from(at)].value());
    let len = outputs[0].len();
    let flops = before.flops() + after.flops() + row.kind.flops();
    // Short rows are taken several at a time.
    let block = row.len * (TILE / row.len).max(1);
    // Rows that are a result as they are, are normalised where it lies.
    let in_place = outputs.len() == 1 && outputs[0].dtype() == DType::F32 && after.is_acc(0);
    let normalized = |before: &mut Machine<'_>, start: usize, lanes: &mut [u32]| {
        fill(before, &inputs, start, lanes);
        normalize(row.kind, epsilon, row.len, bytemuck::cast_slice_mut(lanes));
    };
    for_each(
        split(outputs, len, parts(len as u64 * flops), block),
        || (Machine::new(before), Machine::new(after), vec![0; if in_place { 0 } else { block }]),
        |(before, after, lanes), mut chunk| {
            for at in (0..chunk.len).step_by(block) {
                let (start, taken) = (chunk.start + at, block.min(chunk.len - at));
                if in_place {
                    normalized(before, start, chunk.words(0, at, taken));
                } else {
                    normalized(before, start, &mut lanes[..taken]);
                    write(after, &inputs, &mut chunk, at, &lanes[..taken]);
                }
            }
        },
    );
}

/// The prologue's lanes from `start` on.
pub(super) fn fill(
    machine: &mut Machine<'_>,
    inputs: &[Option<Input<'_>>],
    start: usize,
    lanes: &mut [u32],
) {
    for (i, tile) in lanes.chunks_mut(TILE).enumerate() {
        let span = Span { inputs, start: start + i * TILE, len: tile.len(), acc: &[] };
        if machine.has_place(0) {
            machine.run_to(span, smallvec![Some(tile)]);
        } else {
            machine.run(span);
            tile.copy_from_slice(machine.root(0, span));
        }
    }
}

/// The outputs for the normalised `lanes`, which begin `at` elements into the chunk.
pub(super) fn write(
    machine: &mut Machine<'_>,
    inputs: &[Option<Input<'_>>],
    chunk: &mut Chunk<'_>,
    at: usize,
    lanes: &[u32],
) {
    for (i, acc) in lanes.chunks(TILE).enumerate() {
        let at = at + i * TILE;
        chunk.write_tile(
            machine,
            Span { inputs, start: chunk.start + at, len: acc.len(), acc },
            at,
        );
    }
}

/// Normalises rows of `len` elements in place.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn normalize(kind: RowKind, epsilon: f64, len: usize, lanes: &mut [f32]) {
    // Loops, since the closure of an iterator may be compiled without the instruction set.
    match kind {
        RowKind::Softmax => softmax(lanes, len),
        RowKind::LogSoftmax => {
            for row in lanes.chunks_mut(len) {
                log_softmax(row);
            }
        }
        RowKind::LayerNorm => {
            for row in lanes.chunks_mut(len) {
                layer_norm(row, epsilon);
            }
        }
        RowKind::RmsNorm => {
            for row in lanes.chunks_mut(len) {
                rms_norm(row, epsilon);
            }
        }
        RowKind::L2Normalize => {
            for row in lanes.chunks_mut(len) {
                l2_normalize(row, epsilon);
            }
        }
    }
}

#[inline(always)]
fn softmax(lanes: &mut [f32], len: usize) {
    for row in lanes.chunks_mut(len) {
        let greatest = wide::greatest(row);
        for x in row {
            *x -= greatest;
        }
    }
    // Over all rows at once: a short one would not fill a vector.
    for x in &mut *lanes {
        *x = math::exp(*x);
    }
    for row in lanes.chunks_mut(len) {
        let scale = (1.0 / wide::sum(row, f64::from)) as f32;
        for x in row {
            *x *= scale;
        }
    }
}

#[inline(always)]
fn log_softmax(row: &mut [f32]) {
    let greatest = wide::greatest(row);
    let log = wide::sum_of_exps(row, greatest).ln() as f32;
    for x in row {
        *x = (*x - greatest) - log;
    }
}

#[inline(always)]
fn layer_norm(row: &mut [f32], epsilon: f64) {
    let mean = wide::sum(row, f64::from) / row.len() as f64;
    // What rounding took off the mean is as much as the variance of a constant row.
    let near = mean as f32;
    let low = (mean - f64::from(near)) as f32;
    for x in &mut *row {
        *x = (*x - near) - low;
    }
    rms_norm(row, epsilon);
}

#[inline(always)]
fn rms_norm(row: &mut [f32], epsilon: f64) {
    let squares = wide::sum(row, |x| f64::from(x) * f64::from(x));
    let scale = (1.0 / (squares / row.len() as f64 + epsilon).sqrt()) as f32;
    for x in row {
        *x *= scale;
    }
}

#[inline(always)]
fn l2_normalize(row: &mut [f32], epsilon: f64) {
    let norm = wide::sum(row, |x| f64::from(x) * f64::from(x)).sqrt();
    // Unlike `f64::max`, NaN if the norm is.
    let scale = (1.0 / if norm < epsilon { epsilon } else { norm }) as f32;
    for x in row {
        *x *= scale;
    }
}

/// `to[view(i)] = from[i]`.
pub(super) fn permute(from: &HostBuffer, view: &View, to: &mut HostBuffer) {
    let (dtype, len) = (to.dtype(), to.len());
    let input = Input::elements(&inverse(view), from);
    for_each(
        split(std::slice::from_mut(to), len, parts(len as u64 * 4), TILE),
        || vec![0; TILE],
        |lanes, mut chunk| {
            for at in (0..chunk.len).step_by(TILE) {
                let lanes = &mut lanes[..TILE.min(chunk.len - at)];
                input.fetch(chunk.start + at, lanes);
                let range = at * dtype.size()..(at + lanes.len()) * dtype.size();
                store(dtype, lanes, &mut chunk.outputs[0].1[range]);
            }
        },
    );
}

/// From an element of a value to the position of the point that `view`, a permutation, maps to it.
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
