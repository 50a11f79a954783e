//! The attention form: blocks of queries, each over blocks of keys, so that scores stay in the cache.

mod softmax;

use self::softmax::{QUERIES, SoftmaxState};
use super::epilogue::Epilogue;
use super::product::{
    Kernel, Matrices, PanelProduct, Panels, ProductOutputs, Rows, TransposedLeftProduct, rows_of,
};
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::StepJob;
use crate::exec::cpu::operands::{for_each_if, parts, ranges};
use crate::plan::{AttentionForm, Space};

/// Keys of a block, whose scores stay in the first-level cache.
const KEYS: usize = 128;
/// Most elements of a query that are multiplied at a time.
const WIDE: usize = 256;

pub(crate) fn run(
    job: &StepJob<'_>,
    form: &AttentionForm,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    let (epilogue, mut scratch_sums) = (Epilogue::of(job), Vec::new());
    let mut results = ProductOutputs::new(outputs, &mut scratch_sums, &epilogue);
    let operands = AttentionOperands::of(job, form)?;
    attend(&operands, bytemuck::cast_slice_mut(results.sums_mut()));
    results.finish_all();
    Ok(())
}

struct AttentionOperands<'a> {
    form: &'a AttentionForm,
    scale: f32,
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
    fn of(job: &StepJob<'a>, form: &'a AttentionForm) -> Result<Self, DeviceError> {
        let &AttentionForm { ref batch, queries, keys, width, out, q, k, v, mask, .. } = form;
        let side = |space, root, size| Matrices::new(job, (space, root), size, batch, false);
        Ok(Self {
            form,
            scale: job.step.scalars[usize::from(form.scale)].value() as f32,
            q: side(Space::Query, q, [queries, width])?,
            k: side(Space::Key, k, [keys, width])?,
            v: side(Space::Value, v, [keys, out])?,
            mask: mask.map(|mask| side(Space::Scores, mask, [queries, keys])).transpose()?,
        })
    }
}

fn attend(operands: &AttentionOperands<'_>, out: &mut [f32]) {
    let &AttentionForm { ref batch, queries, keys, width, out: columns, .. } = operands.form;
    let matrices = out.chunks_mut(queries * columns).enumerate();
    let blocks: Vec<QueryBlock<'_>> = matrices
        .flat_map(|(index, out)| {
            let blocks = out.chunks_mut(QUERIES * columns).enumerate();
            blocks.map(move |(block, out)| QueryBlock { index, row: block * QUERIES, out })
        })
        .collect();
    let flops = (2 * (width + columns) * keys * queries) as u64;
    let count: usize = batch.iter().product();
    let work = |worker: &mut AttentionWorker, block| worker.attend(operands, block);
    let is_shared = parts(flops.saturating_mul(count as u64)) > 1;
    for_each_if(is_shared, blocks, AttentionWorker::default, work);
}

/// The memory of one thread.
#[derive(Default)]
struct AttentionWorker {
    /// Panels of the queries, which are their columns, times the scale.
    queries: Vec<f32>,
    /// Scores, and then weights: a row of all queries for each key.
    scores: Vec<f32>,
    /// Panels of the mask, as those of the queries.
    mask: Vec<f32>,
    /// Copies of operands that cannot be read where they lie.
    copies: [Vec<f32>; 2],
}

impl AttentionWorker {
    /// Computes the results of a block of queries, over one block of keys after the other.
    fn attend(&mut self, operands: &AttentionOperands<'_>, block: QueryBlock<'_>) {
        let &AttentionForm { keys, width, out: columns, causal, .. } = operands.form;
        let (kernel, QueryBlock { index, row, out }) = (Kernel::native(), block);
        let rows = out.len() / columns;
        let seen = match causal {
            None => keys,
            Some(offset) => (row + rows).saturating_add_signed(offset as isize).min(keys),
        };
        if seen == 0 {
            return out.fill(0.0);
        }
        let [first, second] = &mut self.copies;
        let q = rows_of(&operands.q, index, [&(row..row + rows), &(0..width)], first);
        self.queries.resize(QUERIES * width, 0.0);
        kernel.transpose([rows, width], q, operands.scale, &mut self.queries);
        let mut softmax = SoftmaxState::new();
        for keys in ranges(seen, KEYS) {
            let count = keys.len();
            self.scores.resize(count * QUERIES, 0.0);
            if width == 0 {
                self.scores.fill(0.0);
            }
            for part in ranges(width, WIDE) {
                let x = rows_of(&operands.k, index, [&keys, &part], first);
                let data = &self.queries[part.start * kernel.panel_width..];
                let w = Panels::Packed { data, pitch: kernel.panel_width * width };
                let product = PanelProduct { size: [count, rows, part.len()], x, w };
                let scores = self.scores.as_mut_ptr();
                // SAFETY: the scores have `QUERIES` columns for each key, at least as many as there are rows. The first
                // part writes all sums.
                unsafe { kernel.panels(&product, scores, QUERIES, part.start > 0) };
            }
            if let Some(mask) = &operands.mask {
                let mask = rows_of(mask, index, [&(row..row + rows), &keys], first);
                add_mask(kernel, (mask, rows), &mut self.mask, &mut self.scores);
            }
            if let Some(offset) = causal {
                hide_later(row as i64 + offset, keys.start, &mut self.scores);
            }
            let factors = softmax.weigh(&mut self.scores);
            if keys.start > 0 {
                for (out, factor) in out.chunks_mut(columns).zip(factors) {
                    if factor != 1.0 {
                        out.iter_mut().for_each(|out| *out *= factor);
                    }
                }
            }
            let product = TransposedLeftProduct {
                size: [rows, columns, count],
                x: Rows { data: &self.scores, stride: QUERIES },
                w: rows_of(&operands.v, index, [&keys, &(0..columns)], second),
            };
            // SAFETY: `out` has `rows` of `columns`. The first keys write all sums.
            unsafe { kernel.transposed_left(&product, out.as_mut_ptr(), columns, keys.start > 0) };
        }
        for (at, out) in out.chunks_mut(columns).enumerate() {
            let factor = softmax.last_factor(at);
            out.iter_mut().for_each(|out| *out *= factor);
        }
    }
}

/// Adds a mask of `queries` rows to the scores.
fn add_mask(
    kernel: &Kernel,
    (mask, queries): (Rows<'_>, usize),
    panels: &mut Vec<f32>,
    scores: &mut [f32],
) {
    let (scores, _) = scores.as_chunks_mut::<QUERIES>();
    let keys = scores.len();
    panels.resize(QUERIES * keys, 0.0);
    kernel.transpose([queries, keys], mask, 1.0, panels);
    for (panel, masks) in panels.chunks(kernel.panel_width * keys).enumerate() {
        for (scores, masks) in scores.iter_mut().zip(masks.chunks(kernel.panel_width)) {
            let scores = &mut scores[panel * kernel.panel_width..];
            scores.iter_mut().zip(masks).for_each(|(score, mask)| *score += mask);
        }
    }
}

/// Hides the keys from `key` on from the queries that do not see them. The first query sees keys up to `last`, and each
/// query sees one more than the one before.
fn hide_later(last: i64, key: usize, scores: &mut [f32]) {
    let (scores, _) = scores.as_chunks_mut::<QUERIES>();
    for (at, scores) in scores.iter_mut().enumerate() {
        let blind = (key + at) as i64 - last;
        let blind = usize::try_from(blind).unwrap_or(0).min(QUERIES);
        scores[..blind].fill(f32::NEG_INFINITY);
    }
}
