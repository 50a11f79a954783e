//! The form `reduce` over windows that slide over images: pooling, and convolutions with filters of one channel.
//!
//! A block of an image is laid out with its border, so that one loop without conditions serves all windows. The block
//! stays in the cache until its results are written. Small depthwise windows read the image where it lies instead. Images
//! stored channels last have loops of their own.

mod blocks;
pub(crate) mod channels_last;
mod depthwise;
pub(crate) mod fused_product;
mod layout;
mod plane_shape;
mod planes;
mod stencil;

use std::borrow::Cow;
use std::ops::Range;

use self::layout::{Layout, Line, layouts, lines};
use self::planes::{Planes, memory};
use self::stencil::{Stencil, Tap};
use crate::base::shape::points;
use crate::exec::HostBuffer;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::operands::{BoundInput, OutputPart, for_each, parts, split};
use crate::exec::cpu::tape::Machine;
use crate::exec::cpu::{ExprHole, StepJob};
use crate::plan::{ReduceForm, Sliding, Space};

/// The parts of a run that all threads share.
struct Slide<'a> {
    sliding: &'a Sliding,
    stencil: Stencil,
    /// The layout of a block.
    layout: Layout,
    /// The layout before the pass along the last axis, if that differs. Without weights, windows are separable: the outer
    /// axes are reduced first, over lines that keep their order. The last axis is laid out by stride phases after that.
    last_pass: Option<Layout>,
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
    /// The block that is laid out: its image, its first row and its rows.
    laid: Option<[usize; 3]>,
}

pub(crate) fn run(
    job: &StepJob<'_>,
    reduce: &ReduceForm,
    sliding: &Sliding,
    outputs: &mut [HostBuffer],
) {
    let images = job.inputs_through(Space::Main, |view| Cow::Owned(sliding.image_view(view)));
    let memory = memory(job, sliding, &images);
    if let Some(words) = memory
        && let Some(planes) = Planes::of(job, reduce, sliding)
    {
        return planes.run(words, outputs);
    }
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
    let output_parts = split(outputs, parts(cost), row);
    let most = output_parts.iter().map(|part| part.len / row).max().unwrap_or(1);
    let (layout, last_pass) = layouts(sliding, cut, most.min(axes[cut].count));
    let stencil = Stencil::new(reduce.combine, job.step.expr.ty(reduce.prologue));
    let one = |at| Tap { at, weight: stencil.one() };
    let pass = |at: usize| {
        let layout =
            if at + 1 == axes.len() { last_pass.as_ref().unwrap_or(&layout) } else { &layout };
        (at, layout.taps(at..at + 1).into_iter().map(one).collect())
    };
    // The last axis comes last.
    let order = (0..axes.len() - 1).rev().chain([axes.len() - 1]);
    let border = sliding.border_bits(&job.step.scalars);
    let slide = Slide {
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
        last_pass,
    };
    let buffer = slide.last_pass.iter().map(Layout::buffer).fold(slide.layout.buffer(), usize::max);
    let worker = || Worker {
        element: Machine::new(element),
        weight: Machine::new(weight),
        after: slide.epilogue.machine(),
        block: vec![0; buffer],
        out: vec![0; buffer],
        taps: Vec::new(),
        tile: 0..0,
        laid: None,
    };
    for_each(output_parts, worker, |worker, part| slide.part(worker, part));
}

/// The number of neighbouring images that are the same.
fn repeats(job: &StepJob<'_>, reduce: &ReduceForm, sliding: &Sliding) -> usize {
    let loads = job.step.expr.loads(&[sliding.element]);
    let still =
        |&axis: &usize| loads.iter().all(|&at| job.step.operands[at].view.strides[axis] == 0);
    (0..sliding.lead).rev().take_while(still).map(|axis| reduce.outer[axis]).product()
}

impl Slide<'_> {
    /// Computes the results of whole rows of windows.
    fn part(&self, worker: &mut Worker<'_>, mut part: OutputPart<'_>) {
        let most = self.finished().axes[self.layout.cut].count;
        let mut done = 0;
        while done < part.len {
            let start = part.start + done;
            let (image, first) = (start / self.windows, start % self.windows / self.row);
            let left = (self.windows / self.row - first).min((part.len - done) / self.row);
            let rows = left.min(most);
            let block = [image / self.repeats, first, rows];
            if worker.laid != Some(block) {
                self.lay_out(worker, image, first, rows);
                worker.laid = self.sliding.weight.map(|_| block);
            }
            self.combine(worker, image, rows);
            self.write(worker, &mut part, done, rows * self.row);
            done += rows * self.row;
        }
    }
}
