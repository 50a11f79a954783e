//! Reductions over windows that slide over images: pooling, and convolutions with filters of one channel.
//!
//! A block of an image is laid out with its border, so that one loop without conditions serves all windows. The block
//! stays in the cache until its results are written. Small depthwise windows read the image where it lies instead.

mod depthwise;
mod layout;
mod stencil;

use std::borrow::Cow;
use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};

use self::depthwise::{ImagePlane, PlaneShape};
use self::layout::{Layout, Line, Pick, layouts, lines};
use self::stencil::{Stencil, Tap};
use crate::base::dtype::DType;
use crate::base::shape::points;
use crate::exec::HostBuffer;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::operands::{BoundInput, Chunk, for_each, parts, split};
use crate::exec::cpu::tape::{Machine, Span, TILE};
use crate::exec::cpu::{ExprHole, Job};
use crate::expr::ExprNode;
use crate::plan::{ReduceForm, Sliding, Space};

/// The parts of a run that all threads share.
struct Slide<'a> {
    sliding: &'a Sliding,
    stencil: Stencil,
    /// The layout of a block. Without weights, the last axis keeps its order until the elements along all others are
    /// combined: the second layout is that of what is left.
    layout: Layout,
    narrow: Option<Layout>,
    /// The lines of a block along its last axis.
    lines: Vec<Line>,
    /// The distances of the elements of a window with weights.
    taps: Vec<usize>,
    /// The axes along which elements without weights are combined, one after the other.
    passes: Vec<(usize, Vec<Tap>)>,
    /// Windows of an image, and of a row.
    windows: usize,
    row: usize,
    /// Elements of an image inside of its border, and of all images; those between neighbours along the axis of blocks.
    elements: usize,
    total: usize,
    pitch: usize,
    /// Neighbouring images that are the same, to which different weights belong.
    repeats: usize,
    border: u32,
    /// The elements of all images, if they lie in memory one after the other.
    memory: Option<&'a [u32]>,
    /// The shape of images whose windows are read where they lie.
    planes: Option<PlaneShape>,
    images: Vec<Option<BoundInput<'a>>>,
    weights: Vec<Option<BoundInput<'a>>>,
    epilogue: Epilogue<'a>,
}

/// The buffers and machines of a thread.
struct Worker<'a> {
    element: Machine<'a>,
    weight: Machine<'a>,
    after: Machine<'a>,
    block: Vec<u32>,
    out: Vec<u32>,
    taps: Vec<Tap>,
    /// The elements that the machine computed last, by position among all images.
    tile: Range<usize>,
    /// The images whose weights the machine computed last, by position.
    weights: Range<usize>,
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
    let element = job.tape(ExprHole::Before, &[sliding.element], &images);
    let weight = job.tape(ExprHole::Right, sliding.weight.as_slice(), &weights);
    let epilogue = Epilogue::of(job);
    let axes = &sliding.axes;
    let (outer, windows) = (points(&reduce.outer), points(&reduce.outer[sliding.lead..]));
    let cut = axes.iter().position(|axis| axis.count > 1).unwrap_or(0);
    let row: usize = axes[cut + 1..].iter().map(|axis| axis.count).product();
    let elements: usize = axes.iter().map(|axis| axis.inside.len()).product();
    let total = outer / windows * elements;
    let cost = outer as u64 * (sliding.taps() as u64 + epilogue.tape.flops())
        + total as u64 * (element.flops() + 2);
    let is_word = matches!(&*outputs, [out] if !matches!(out.dtype(), DType::F16 | DType::Bool));
    let chunks = split(outputs, outer, parts(cost), row);
    let most = chunks.iter().map(|chunk| chunk.len / row).max().unwrap_or(1);
    let (layout, narrow) = layouts(sliding, cut, most.min(axes[cut].count));
    let stencil = Stencil::new(reduce.combine, job.step.expr.ty(reduce.prologue));
    let one = |at| Tap { at, weight: stencil.one() };
    let pass = |at: usize| {
        let layout =
            if at + 1 == axes.len() { narrow.as_ref().unwrap_or(&layout) } else { &layout };
        (at, layout.taps(at..at + 1).into_iter().map(one).collect())
    };
    // The last axis comes last.
    let order = (0..axes.len() - 1).rev().chain([axes.len() - 1]);
    let border = border(job, sliding);
    let memory = match job.step.expr.node(sliding.element) {
        ExprNode::Load(at) => match &images[usize::from(at)] {
            Some(BoundInput::Memory(words)) => Some(&**words),
            _ => None,
        },
        _ => None,
    };
    let is_plain = memory.is_some()
        && sliding.weight.is_some()
        && matches!(stencil, Stencil::SumF32)
        && border == 0
        && is_word;
    let slide = Slide {
        planes: PlaneShape::of(sliding).filter(|_| is_plain),
        lines: lines(sliding, &layout),
        taps: if sliding.weight.is_some() { layout.taps(0..axes.len()) } else { Vec::new() },
        passes: order.filter(|&at| axes[at].window.size > 1).map(pass).collect(),
        pitch: axes[cut + 1..].iter().map(|axis| axis.inside.len()).product(),
        repeats: repeats(job, reduce, sliding),
        border,
        memory,
        sliding,
        stencil,
        windows,
        row,
        elements,
        total,
        images,
        weights,
        epilogue,
        layout,
        narrow,
    };
    let buffer = match slide.planes {
        Some(_) => 0,
        None => slide.narrow.iter().map(Layout::buffer).fold(slide.layout.buffer(), usize::max),
    };
    let worker = || Worker {
        element: Machine::new(element),
        weight: Machine::new(weight),
        after: slide.epilogue.machine(),
        block: vec![0; buffer],
        out: vec![0; buffer],
        taps: Vec::new(),
        weights: 0..0,
        tile: 0..0,
        laid: None,
    };
    for_each(chunks, worker, |worker, chunk| slide.chunk(worker, chunk));
}

/// The number around the images.
fn border(job: &Job<'_>, sliding: &Sliding) -> u32 {
    sliding.border.map_or(0, |number| job.step.scalars[number].lane_bits())
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
        let most = self.finished().axes[self.layout.cut].count;
        let mut done = 0;
        while done < chunk.len {
            let start = chunk.start + done;
            let (image, first) = (start / self.windows, start % self.windows / self.row);
            let left = (self.windows / self.row - first).min((chunk.len - done) / self.row);
            if let Some(shape) = self.planes {
                self.plane(worker, &mut chunk, done, (shape, image, first..first + left));
                done += left * self.row;
                continue;
            }
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

    /// Computes the results of some rows of windows of an image, which are the chunk's from element `at` on.
    fn plane(
        &self,
        worker: &mut Worker<'_>,
        chunk: &mut Chunk<'_>,
        at: usize,
        (shape, image, rows): (PlaneShape, usize, Range<usize>),
    ) {
        let Worker { weight, after, weights, .. } = worker;
        let taps = self.taps.len();
        let known = weights.contains(&image);
        if !known {
            *weights = image..(image + (TILE / taps).max(1)).min(self.total / self.elements);
        }
        let (start, len) = (weights.start * taps, weights.len() * taps);
        let span = Span { inputs: &self.weights, start, len, acc: &[] };
        if !known {
            weight.run(span);
        }
        let weights = &cast_slice(weight.root(0, span))[(image - weights.start) * taps..][..taps];
        let words = &self.memory.unwrap_or_default()[image * self.elements..][..self.elements];
        let plane = ImagePlane { shape, image: cast_slice(words), weights };
        let len = rows.len() * self.row;
        depthwise::run(&plane, rows, cast_slice_mut(chunk.words(0, at, len)));
        self.epilogue.finish_in_place(after, chunk, at, len);
    }

    /// The layout of the results.
    fn finished(&self) -> &Layout {
        self.narrow.as_ref().unwrap_or(&self.layout)
    }

    /// Lays out the elements of an image that `rows` rows of windows from `first` on cover.
    fn lay_out(&self, worker: &mut Worker<'_>, image: usize, first: usize, rows: usize) {
        let (cut, last) = (self.layout.cut, self.layout.axes.len() - 1);
        let axes = &self.sliding.axes;
        let (start, extent) = (first * axes[cut].window.step, axes[cut].window.extent(rows));
        let (skipped, len) = match cut == last {
            true => (start, extent),
            false => (0, axes[last].window.extent(axes[last].count)),
        };
        let inside = &axes[last].inside;
        let columns = shifted(inside, skipped, len);
        let first = image * self.elements + skipped.saturating_sub(inside.start);
        let picks = self.layout.axes[last].picks(&columns);
        for line in self.lines.iter().filter(|line| cut == last || line.coordinate < extent) {
            let coordinate = line.coordinate + start;
            let source = match &axes[cut].inside {
                _ if cut == last => line.source,
                inside if !inside.contains(&coordinate) => None,
                inside => line.source.map(|at| at + (coordinate - inside.start) * self.pitch),
            };
            let source = source.filter(|_| !columns.is_empty());
            for pick in &picks {
                let line = &mut worker.block[line.place + pick.place..][..pick.len];
                if source.is_some() {
                    line[..pick.inside.start].fill(self.border);
                    line[pick.inside.end..].fill(self.border);
                } else {
                    line.fill(self.border);
                }
            }
            if let Some(source) = source {
                self.line(worker, line.place, first + source, &columns, &picks);
            }
        }
        self.stencil.enter(&mut worker.block[..self.layout.len]);
    }

    /// Lays out the elements of a line inside of the border, the first of which is `from` among all images.
    fn line(
        &self,
        worker: &mut Worker<'_>,
        place: usize,
        from: usize,
        columns: &Range<usize>,
        picks: &[Pick],
    ) {
        let Worker { element, block, tile, .. } = worker;
        let axis = &self.layout.axes[self.layout.axes.len() - 1];
        let mut lay = |lanes: &[u32], picks: &[Pick]| {
            for Pick { place: phase, inside, skip, .. } in
                picks.iter().filter(|p| !p.inside.is_empty())
            {
                let out = &mut block[place + phase..][inside.clone()];
                stencil::pick(&lanes[*skip..], axis.window.step, out);
            }
        };
        let span = |tile: &Range<usize>| {
            let (start, len) = (tile.start, tile.len());
            Span { inputs: &self.images, start, len, acc: &[] }
        };
        if let Some(words) = self.memory {
            return lay(&words[from..from + columns.len()], picks);
        }
        let mut column = columns.start;
        while column < columns.end {
            let at = from + column - columns.start;
            if !tile.contains(&at) {
                *tile = at..self.total.min(at + TILE);
                element.run(span(tile));
            }
            let end = columns.end.min(column + tile.end - at);
            let lanes = &element.root(0, span(tile))[at - tile.start..][..end - column];
            lay(lanes, &axis.picks(&(column..end)));
            column = end;
        }
    }

    /// Combines the elements of the windows of a block.
    fn combine(&self, worker: &mut Worker<'_>, image: usize, rows: usize) {
        let Worker { weight, block, out, taps, .. } = worker;
        if self.sliding.weight.is_none() {
            let last = self.layout.axes.len() - 1;
            let mut narrow = self.narrow.as_ref();
            for (axis, taps) in &self.passes {
                let len = if *axis < last {
                    let rows = (self.layout.cut < last).then_some(rows);
                    self.layout.places_along(*axis, rows)
                } else {
                    if let Some(narrow) = narrow.take() {
                        self.narrow(narrow, block, out);
                        std::mem::swap(block, out);
                    }
                    self.finished().places(rows)
                };
                self.stencil.run(block, len, taps, out);
                std::mem::swap(block, out);
            }
            if let Some(narrow) = narrow {
                self.narrow(narrow, block, out);
                std::mem::swap(block, out);
            }
            return std::mem::swap(block, out);
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

    /// Lays out the phases of the last axis, once the elements along all others are combined.
    fn narrow(&self, narrow: &Layout, block: &[u32], out: &mut [u32]) {
        let Some((last, outer)) = narrow.axes.split_last() else { return };
        let picks = last.picks(&(0..last.window.extent(last.count)));
        for line in 0..outer.iter().map(|axis| axis.count).product() {
            // The only line along an axis of blocks that is the last begins both blocks.
            let (from, to) = match outer.len() == narrow.cut {
                true => (0, 0),
                false => (self.layout.line(line), narrow.line(line)),
            };
            for Pick { place, inside, skip, .. } in &picks {
                let out = &mut out[to + place..][inside.clone()];
                stencil::pick(&block[from + skip..], last.window.step, out);
            }
        }
    }

    /// Writes `len` results of a block, from the chunk's element `done` on.
    fn write(&self, worker: &mut Worker<'_>, chunk: &mut Chunk<'_>, done: usize, len: usize) {
        let word = |dtype: DType| !matches!(dtype, DType::F16 | DType::Bool);
        if chunk.outputs.len() == 1 && word(chunk.outputs[0].0) {
            let out = chunk.words(0, done, len);
            self.finished().gather(&worker.out, 0, out);
            self.stencil.leave(out);
            return self.epilogue.finish_in_place(&mut worker.after, chunk, done, len);
        }
        let mut acc = [0; TILE];
        for from in (0..len).step_by(TILE) {
            let acc = &mut acc[..TILE.min(len - from)];
            self.finished().gather(&worker.out, from, acc);
            self.stencil.leave(acc);
            let at = done + from;
            let span = Span {
                inputs: &self.epilogue.inputs,
                start: chunk.start + at,
                len: acc.len(),
                acc,
            };
            chunk.write_tile(&mut worker.after, span, at);
        }
    }
}

/// The part of a range within `len` numbers from `start` on, counted from there.
fn shifted(range: &Range<usize>, start: usize, len: usize) -> Range<usize> {
    let at = |bound: usize| bound.saturating_sub(start).min(len);
    at(range.start)..at(range.end)
}
