//! Images whose small windows are read where they lie, plane by plane: depthwise convolutions and pooling.

use std::borrow::Cow;
use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};

use super::depthwise::{self, ImagePlane, WindowResult};
use super::plane_shape::PlaneShape;
use crate::base::dtype::Ty;
use crate::base::shape::points;
use crate::exec::HostBuffer;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::operands::{BoundInput, OutputPart, for_each_part};
use crate::exec::cpu::tape::{Machine, Span, TILE, Tape};
use crate::exec::cpu::{ExprHole, StepJob};
use crate::ops::Combine;
use crate::plan::{ReduceForm, Sliding, Space};

/// All planes of a step.
pub(super) struct Planes<'a> {
    pub shape: PlaneShape,
    /// The number of planes, and the elements of each.
    pub count: usize,
    pub elements: usize,
    /// Windows of a plane, and of a row.
    pub windows: usize,
    pub row: usize,
    /// Elements of a window.
    taps: usize,
    weights: Vec<Option<BoundInput<'a>>>,
    /// The weights of sums, if they have any.
    weight: Option<&'a Tape>,
    is_greatest: bool,
    epilogue: Epilogue<'a>,
}

/// The machines of a thread.
pub(super) struct PlaneWorker<'a> {
    weight: Option<Machine<'a>>,
    after: Machine<'a>,
    /// The planes whose weights the machine computed last.
    known: Range<usize>,
}

impl<'a> Planes<'a> {
    /// The planes of `job`, if there is a loop for their windows.
    pub fn of(job: &StepJob<'a>, reduce: &ReduceForm, sliding: &Sliding) -> Option<Self> {
        let shape = PlaneShape::of(sliding)?;
        let [output] = &job.step.outputs[..] else { return None };
        let has_words = output.dtype.is_word();
        if !has_words || job.step.expr.ty(reduce.prologue) != Ty::F32 {
            return None;
        }
        let (is_greatest, outside) = match reduce.combine {
            Combine::Sum => (false, 0.0),
            Combine::Max if sliding.weight.is_none() => (true, f32::NEG_INFINITY),
            _ => return None,
        };
        if sliding.border.is_some() && sliding.border_bits(&job.step.scalars) != outside.to_bits() {
            return None;
        }
        let weights = job.inputs_through(Space::Main, |view| Cow::Owned(sliding.weight_view(view)));
        let [down, along] = &sliding.axes[..] else { return None };
        let windows = down.count * along.count;
        Some(Self {
            shape,
            count: points(&reduce.outer) / windows.max(1),
            elements: down.inside.len() * along.inside.len(),
            windows,
            row: along.count,
            taps: sliding.taps(),
            weight: sliding.weight.map(|weight| job.tape(ExprHole::Right, &[weight], &weights)),
            is_greatest,
            weights,
            epilogue: Epilogue::of(job),
        })
    }

    /// Computes all results over the images in `words`.
    pub fn run(&self, words: &[u32], outputs: &mut [HostBuffer]) {
        let images = cast_slice(words);
        for_each_part(
            outputs,
            self.cost(),
            self.row,
            || self.worker(),
            |worker, mut part| {
                let mut done = 0;
                while done < part.len {
                    let start = part.start + done;
                    let (plane, first) = (start / self.windows, start % self.windows / self.row);
                    let left = (self.windows / self.row - first).min((part.len - done) / self.row);
                    let image = &images[plane * self.elements..][..self.elements];
                    let rows = first..first + left;
                    self.rows(worker, (&mut part, done), plane, (self.shape, image), rows);
                    done += left * self.row;
                }
            },
        );
    }

    /// Flops and words moved of all planes.
    pub fn cost(&self) -> u64 {
        let of_window = self.taps as u64 + self.epilogue.tape.flops();
        (self.count * self.windows) as u64 * of_window + 2 * (self.count * self.elements) as u64
    }

    pub fn worker(&self) -> PlaneWorker<'_> {
        PlaneWorker {
            weight: self.weight.map(Machine::new),
            after: self.epilogue.machine(),
            known: 0..0,
        }
    }

    /// Computes the results of `rows` rows of windows of a plane, which are the part's from an element on. `image` has the
    /// shape beside it, which `rows` count in.
    pub fn rows(
        &self,
        PlaneWorker { weight, after, known }: &mut PlaneWorker<'_>,
        (part, at): (&mut OutputPart<'_>, usize),
        plane: usize,
        (shape, image): (PlaneShape, &[f32]),
        rows: Range<usize>,
    ) {
        /// The weights of windows that have none.
        const ONES: [f32; 25] = [1.0; 25];
        let is_known = known.contains(&plane) || weight.is_none();
        if !is_known {
            *known = plane..(plane + (TILE / self.taps).max(1)).min(self.count);
        }
        let (start, len) = (known.start * self.taps, known.len() * self.taps);
        let span = Span { inputs: &self.weights, start, len, acc: &[] };
        let result = match weight {
            _ if self.is_greatest => WindowResult::Greatest,
            None => WindowResult::Sum(&ONES),
            Some(weight) => {
                if !is_known {
                    weight.run(&span);
                }
                let own = (plane - known.start) * self.taps;
                WindowResult::Sum(&cast_slice(weight.root(0, &span))[own..][..self.taps])
            }
        };
        let len = rows.len() * self.row;
        let start = part.start + at;
        let chain = self.epilogue.chain.as_ref();
        let link = chain.and_then(|chain| chain.as_affine_clamp(start..start + len));
        let out = cast_slice_mut(part.words(0, at, len));
        depthwise::run(&ImagePlane { shape, image, result, epilogue: link.as_ref() }, rows, out);
        if link.is_none() {
            self.epilogue.finish_in_place(after, part, at, len);
        }
    }
}

/// The elements of the images, if they lie in memory one after the other.
pub(super) fn memory<'a>(
    job: &StepJob<'_>,
    sliding: &Sliding,
    images: &[Option<BoundInput<'a>>],
) -> Option<&'a [u32]> {
    match &images[job.step.expr.loaded(sliding.element)?] {
        Some(BoundInput::Memory(words)) => Some(words),
        _ => None,
    }
}
