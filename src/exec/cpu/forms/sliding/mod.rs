//! Reductions over windows that slide over images: pooling, and convolutions with filters of one channel.
//!
//! A block of an image is laid out with its border, so that one loop without conditions serves all windows. The block
//! stays in the cache until its results are written.

mod layout;
mod stencil;

use std::borrow::Cow;
use std::ops::Range;

use self::layout::{Layout, LayoutAxis};
use self::stencil::{Stencil, Tap};
use crate::base::dtype::DType;
use crate::base::shape::points;
use crate::exec::HostBuffer;
use crate::exec::cpu::operands::{BoundInput, Chunk, for_each, parts, split};
use crate::exec::cpu::tape::{Machine, Span, TILE};
use crate::exec::cpu::{ExprHole, Job};
use crate::expr::ExprNode;
use crate::plan::{ReduceForm, Sliding, Space};

/// Lanes of a block, so few that block and results stay in the cache next to a core.
const BLOCK: usize = 12 << 10;

/// The parts of a run that all threads share.
struct Slide<'a> {
    sliding: &'a Sliding,
    stencil: Stencil,
    layout: Layout,
    /// The distances of the elements of a window with weights.
    taps: Vec<usize>,
    /// The axes along which elements without weights are combined, one after the other.
    passes: Vec<(usize, Vec<Tap>)>,
    /// Windows of an image, and of a row.
    windows: usize,
    row: usize,
    /// Elements of an image inside of its border, and of all images.
    elements: usize,
    total: usize,
    /// Neighbouring images that are the same, to which different weights belong.
    repeats: usize,
    border: u32,
    images: Vec<Option<BoundInput<'a>>>,
    weights: Vec<Option<BoundInput<'a>>>,
    results: Vec<Option<BoundInput<'a>>>,
}

/// The buffers and machines of a thread.
struct Worker<'a> {
    element: Machine<'a>,
    weight: Machine<'a>,
    after: Machine<'a>,
    /// True if the outputs are the combined elements.
    stores: bool,
    block: Vec<u32>,
    out: Vec<u32>,
    taps: Vec<Tap>,
    /// The elements that the machine computed last, by position among all images.
    tile: Range<usize>,
    /// The block that is laid out: its image, its first row and its rows.
    laid: Option<[usize; 3]>,
}

pub(crate) fn run(
    job: &Job<'_>,
    reduce: &ReduceForm,
    sliding: &Sliding,
    outputs: &mut [HostBuffer],
) {
    let images = job.inputs_through(Space::Main, |view| Cow::Owned(sliding.image_view(view)));
    let weights = job.inputs_through(Space::Main, |view| Cow::Owned(sliding.weight_view(view)));
    let results = job.inputs(Space::Out);
    let element = job.tape(ExprHole::Before, &[sliding.element], &images);
    let weight = job.tape(ExprHole::Right, sliding.weight.as_slice(), &weights);
    let after = job.tape(ExprHole::After, &job.roots(), &results);
    let axes = &sliding.axes;
    let (outer, windows) = (points(&reduce.outer), points(&reduce.outer[sliding.lead..]));
    let cut = axes.iter().position(|axis| axis.count > 1).unwrap_or(0);
    let row: usize = axes[cut + 1..].iter().map(|axis| axis.count).product();
    let elements: usize = axes.iter().map(|axis| axis.inside.len()).product();
    let total = outer / windows * elements;
    let cost = outer as u64 * (sliding.taps() as u64 + after.flops())
        + total as u64 * (element.flops() + 2);
    let chunks = split(outputs, outer, parts(cost), row);
    let most = chunks.iter().map(|chunk| chunk.len / row).max().unwrap_or(1);
    let layout = layout(sliding, cut, most.min(axes[cut].count));
    let stencil = Stencil::new(reduce.combine, job.step.expr.ty(reduce.prologue));
    let one = |at| Tap { at, weight: stencil.one() };
    let pass = |at: usize| (at, layout.taps(at..at + 1).into_iter().map(one).collect());
    let combined = (0..axes.len()).rev().filter(|&at| axes[at].window.size > 1);
    let slide = Slide {
        taps: if sliding.weight.is_some() { layout.taps(0..axes.len()) } else { Vec::new() },
        passes: combined.map(pass).collect(),
        repeats: repeats(job, reduce, sliding),
        border: border(job, sliding),
        sliding,
        stencil,
        layout,
        windows,
        row,
        elements,
        total,
        images,
        weights,
        results,
    };
    let worker = || Worker {
        element: Machine::new(element),
        weight: Machine::new(weight),
        after: Machine::new(after),
        stores: after.is_acc(0),
        block: vec![0; slide.layout.buffer()],
        out: vec![0; slide.layout.buffer()],
        taps: Vec::new(),
        tile: 0..0,
        laid: None,
    };
    for_each(chunks, worker, |worker, chunk| slide.chunk(worker, chunk));
}

/// The layout of blocks of at most `most` rows.
fn layout(sliding: &Sliding, cut: usize, most: usize) -> Layout {
    let at = |rows: usize| Layout::new(&sliding.axes, cut, rows);
    let (one, two) = (at(1).len, at(2).len);
    let fit = BLOCK.saturating_sub(one) / (two - one).max(1) + 1;
    // At least as many rows as a window has, so that few elements are laid out twice.
    at(fit.max(sliding.axes[cut].window.reach()).min(most).max(1))
}

/// The number around the images.
fn border(job: &Job<'_>, sliding: &Sliding) -> u32 {
    match sliding.border.map(|border| job.step.expr.node(border)) {
        Some(ExprNode::Scalar(at)) => job.step.scalars[usize::from(at)].lane_bits(),
        _ => 0,
    }
}

/// The number of neighbouring images that are the same.
fn repeats(job: &Job<'_>, reduce: &ReduceForm, sliding: &Sliding) -> usize {
    let loads = job.step.expr.loads(&[sliding.element]);
    let still =
        |&axis: &usize| loads.iter().all(|&at| job.step.operands[at].view.strides[axis] == 0);
    (0..sliding.lead).rev().take_while(still).map(|axis| reduce.outer[axis]).product()
}

impl Slide<'_> {
    /// Computes the results of whole rows of windows.
    fn chunk(&self, worker: &mut Worker<'_>, mut chunk: Chunk<'_>) {
        let most = self.layout.axes[self.layout.cut].count;
        let mut done = 0;
        while done < chunk.len {
            let start = chunk.start + done;
            let (image, first) = (start / self.windows, start % self.windows / self.row);
            let left = (self.windows / self.row - first).min((chunk.len - done) / self.row);
            let rows = left.min(most);
            let block = [image / self.repeats, first, rows];
            if worker.laid != Some(block) {
                self.lay_out(worker, image, first, rows);
                worker.laid = self.sliding.weight.map(|_| block);
            }
            self.combine(worker, image, rows);
            self.write(worker, &mut chunk, done, rows * self.row);
            done += rows * self.row;
        }
    }

    /// Lays out the elements of an image that `rows` rows of windows from `first` on cover.
    fn lay_out(&self, worker: &mut Worker<'_>, image: usize, first: usize, rows: usize) {
        let (Some((last, outer)), cut) = (self.layout.axes.split_last(), self.layout.cut) else {
            return;
        };
        // The first coordinate of the block along an axis, and the number of coordinates.
        let start =
            |at: usize| if at == cut { first * self.layout.axes[at].window.step } else { 0 };
        let extent = |at: usize| {
            let (axis, count) = (&self.layout.axes[at], self.layout.axes[at].count);
            let count = if at == cut { rows } else { count };
            (count - 1) * axis.window.step + axis.window.reach()
        };
        let own = &self.sliding.axes[outer.len()].inside;
        let columns = shifted(own, start(outer.len()), extent(outer.len()));
        let skipped = start(outer.len()).saturating_sub(own.start);
        for line in 0..(0..outer.len()).map(extent).product() {
            let (mut rest, mut pitch) = (line, own.len());
            let (mut place, mut source) = (Some(0), Some(image * self.elements + skipped));
            for (at, axis) in outer.iter().enumerate().rev() {
                let (coordinate, inside) = (rest % extent(at), &self.sliding.axes[at].inside);
                rest /= extent(at);
                place = place.zip(axis.place(coordinate)).map(|(place, more)| place + more);
                let coordinate = coordinate + start(at);
                source = source
                    .filter(|_| inside.contains(&coordinate))
                    .map(|source| source + (coordinate - inside.start) * pitch);
                pitch *= inside.len();
            }
            let (Some(place), columns) = (place, source.map_or(0..0, |_| columns.clone())) else {
                continue;
            };
            for (first, at, len) in last.phases() {
                let inside = last.within(first, &columns, len);
                let line = &mut worker.block[place + at..place + at + len];
                line[..inside.start].fill(self.border);
                line[inside.end..].fill(self.border);
            }
            self.line(worker, last, place, source.unwrap_or(0), columns);
        }
        self.stencil.enter(&mut worker.block[..self.layout.len]);
    }

    /// Lays out the elements of a line inside of the border, the first of which is `from` among all images.
    fn line(
        &self,
        worker: &mut Worker<'_>,
        axis: &LayoutAxis,
        place: usize,
        from: usize,
        columns: Range<usize>,
    ) {
        let Worker { element, block, tile, .. } = worker;
        let mut column = columns.start;
        while column < columns.end {
            let at = from + column - columns.start;
            let span = |tile: &Range<usize>| Span {
                inputs: &self.images,
                start: tile.start,
                len: tile.len(),
                acc: &[],
            };
            if element.reads_memory(0) {
                *tile = at..at + columns.end - column;
            } else if !tile.contains(&at) {
                *tile = at..self.total.min(at + TILE);
                element.run(span(tile));
            }
            let lanes = &element.root(0, span(tile))[at - tile.start..];
            let len = lanes.len().min(columns.end - column);
            for (first, at, phase) in axis.phases() {
                let inside = axis.within(first, &(column..column + len), phase);
                let out = &mut block[place + at..][inside.clone()];
                let skipped = first + inside.start * axis.window.step - column;
                if !out.is_empty() {
                    stencil::pick(&lanes[skipped..len], axis.window.step, out);
                }
            }
            column += len;
        }
    }

    /// Combines the elements of the windows of a block.
    fn combine(&self, worker: &mut Worker<'_>, image: usize, rows: usize) {
        let Worker { weight, block, out, taps, .. } = worker;
        if self.sliding.weight.is_none() {
            for (axis, taps) in &self.passes {
                self.stencil.run(block, self.layout.places_after(*axis, rows), taps, out);
                std::mem::swap(block, out);
            }
            std::mem::swap(block, out);
            return;
        }
        taps.clear();
        for (piece, places) in self.taps.chunks(TILE).enumerate() {
            let start = image * self.taps.len() + piece * TILE;
            let span = Span { inputs: &self.weights, start, len: places.len(), acc: &[] };
            weight.run(span);
            let weights = weight.root(0, span).iter();
            taps.extend(places.iter().zip(weights).map(|(&at, &weight)| Tap { at, weight }));
        }
        self.stencil.run(block, self.layout.places(rows), taps, out);
    }

    /// Writes `len` results of a block, from the chunk's element `done` on.
    fn write(&self, worker: &mut Worker<'_>, chunk: &mut Chunk<'_>, done: usize, len: usize) {
        let word = |dtype: DType| !matches!(dtype, DType::F16 | DType::Bool);
        if worker.stores && chunk.outputs.len() == 1 && word(chunk.outputs[0].0) {
            let out = chunk.words(0, done, len);
            self.layout.gather(&worker.out, 0, out);
            return self.stencil.leave(out);
        }
        let mut acc = [0; TILE];
        for from in (0..len).step_by(TILE) {
            let acc = &mut acc[..TILE.min(len - from)];
            self.layout.gather(&worker.out, from, acc);
            self.stencil.leave(acc);
            let at = done + from;
            let span = Span { inputs: &self.results, start: chunk.start + at, len: acc.len(), acc };
            chunk.write_tile(&mut worker.after, span, at);
        }
    }
}

/// The part of a range within `len` numbers from `start` on, counted from there.
fn shifted(range: &Range<usize>, start: usize, len: usize) -> Range<usize> {
    let at = |bound: usize| bound.saturating_sub(start).min(len);
    at(range.start)..at(range.end)
}
