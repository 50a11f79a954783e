//! The attention form: blocks of queries, each over blocks of keys, so that scores stay in the cache.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use super::epilogue::Epilogue;
use super::matmul::{Matrices, MatrixSlice, ProductOutputs, multiply};
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::Job;
use crate::exec::cpu::operands::{for_each, parts};
use crate::exec::cpu::tape::{math, wide};
use crate::plan::{AttentionForm, Space};

/// Queries of a block.
const QUERIES: usize = 64;
/// Keys of a block.
const KEYS: usize = 256;

pub(crate) fn run(
    job: &Job<'_>,
    form: &AttentionForm,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    let (epilogue, mut apart) = (Epilogue::of(job), Vec::new());
    let mut results = ProductOutputs::new(outputs, &mut apart, &epilogue);
    let operands = AttentionOperands::of(job, form)?;
    let scale = job.step.scalars[usize::from(form.scale)].value() as f32;
    attend(form, &operands, scale, bytemuck::cast_slice_mut(results.sums_mut()));
    results.finish_all();
    Ok(())
}

struct AttentionOperands<'a> {
    q: Matrices<'a>,
    k: Matrices<'a>,
    v: Matrices<'a>,
    mask: Option<Matrices<'a>>,
}

/// A block of queries: its matrix in the batch, its first query, and the place of its result.
struct QueryBlock<'a> {
    index: usize,
    row: usize,
    out: &'a mut [f32],
}

impl<'a> AttentionOperands<'a> {
    fn of(job: &Job<'a>, form: &AttentionForm) -> Result<Self, DeviceError> {
        let &AttentionForm { ref batch, queries, keys, width, out, q, k, v, mask, .. } = form;
        let side = |space, root, size| Matrices::new(job, (space, root), size, batch, false);
        Ok(Self {
            q: side(Space::Query, q, [queries, width])?,
            k: side(Space::Key, k, [keys, width])?,
            v: side(Space::Value, v, [keys, out])?,
            mask: mask.map(|mask| side(Space::Scores, mask, [queries, keys])).transpose()?,
        })
    }
}

fn attend(form: &AttentionForm, operands: &AttentionOperands<'_>, scale: f32, out: &mut [f32]) {
    let &AttentionForm { ref batch, queries, keys, width, out: columns, .. } = form;
    let matrices = out.chunks_mut(queries * columns).enumerate();
    let blocks: Vec<QueryBlock<'_>> = matrices
        .flat_map(|(index, out)| {
            let blocks = out.chunks_mut(QUERIES * columns).enumerate();
            blocks.map(move |(block, out)| QueryBlock { index, row: block * QUERIES, out })
        })
        .collect();
    let flops = (2 * (width + columns) * keys * queries) as u64;
    let count: usize = batch.iter().product();
    let work = |scores: &mut Vec<f32>, block: QueryBlock<'_>| {
        attend_block(form, scale, operands, scores, block);
    };
    if parts(flops.saturating_mul(count as u64)) > 1 {
        return for_each(blocks, Vec::new, work);
    }
    let mut scores = Vec::new();
    blocks.into_iter().for_each(|block| work(&mut scores, block));
}

/// The running softmax of a query: the greatest score so far and the sum of the weights.
#[derive(Clone, Copy)]
struct SoftmaxState {
    greatest: f32,
    total: f64,
}

fn attend_block(
    form: &AttentionForm,
    scale: f32,
    operands: &AttentionOperands<'_>,
    scores: &mut Vec<f32>,
    block: QueryBlock<'_>,
) {
    let &AttentionForm { keys, width, out: columns, causal, .. } = form;
    let QueryBlock { index, row, out } = block;
    let rows = out.len() / columns;
    out.fill(0.0);
    let mut states = [SoftmaxState { greatest: f32::MIN, total: 0.0 }; QUERIES];
    let seen = match causal {
        None => keys,
        Some(offset) => (row + rows).saturating_add_signed(offset as isize).min(keys),
    };
    for key in (0..seen).step_by(KEYS) {
        let count = KEYS.min(seen - key);
        scores.resize(rows * count, 0.0);
        if width == 0 {
            scores.fill(0.0);
        } else {
            let (q, k) = (
                MatrixSlice::of(&operands.q, index, row),
                MatrixSlice::of(&operands.k, index, key).transposed(),
            );
            multiply([rows, count, width], q, k, scores, false);
        }
        let mask = operands.mask.as_ref().map(|mask| MatrixSlice::of(mask, index, row));
        for (i, scores) in scores.chunks_mut(count).enumerate() {
            let last = causal.map(|offset| row as i64 + i as i64 + offset);
            let visible = last.map_or(count, |last| {
                usize::try_from(last + 1 - key as i64).unwrap_or(0).min(count)
            });
            let (seen, unseen) = scores.split_at_mut(visible);
            unseen.fill(0.0);
            if let Some(mask) = mask {
                for (at, score) in seen.iter_mut().enumerate() {
                    *score = *score * scale + mask.at(i, key + at);
                }
            }
            let scale = if mask.is_some() { 1.0 } else { scale };
            let shrink = weigh(seen, scale, &mut states[i]);
            if shrink != 1.0 {
                out[i * columns..][..columns].iter_mut().for_each(|out| *out *= shrink);
            }
        }
        let p = MatrixSlice { data: scores, start: 0, strides: [count as isize, 1] };
        multiply([rows, columns, count], p, MatrixSlice::of(&operands.v, index, key), out, true);
    }
    for (out, state) in out.chunks_mut(columns).zip(states) {
        // A query that sees no key has a result of 0.
        let scale = if state.total == 0.0 { 0.0 } else { (1.0 / state.total) as f32 };
        out.iter_mut().for_each(|out| *out *= scale);
    }
}

/// Turns scores, which are scaled first, into weights relative to the greatest score so far. Returns the factor for the
/// earlier sums.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn weigh(scores: &mut [f32], scale: f32, state: &mut SoftmaxState) -> f32 {
    const FMA: bool = target_cfg_f!(any(target_feature = "fma", target_arch = "aarch64"));
    for score in &mut *scores {
        *score *= scale;
    }
    let now = math::max(state.greatest, wide::greatest(scores));
    let shrink = math::exp_nonpositive::<FMA>(state.greatest - now);
    for score in &mut *scores {
        *score = math::exp_nonpositive::<FMA>(*score - now);
    }
    state.total = state.total * f64::from(shrink) + wide::mixed_sum(scores, |weight| weight);
    state.greatest = now;
    shrink
}
