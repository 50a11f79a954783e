//! The operands of a product: where they lie, or what their prologues make of them.

use std::borrow::Cow;
use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};
use half::f16;
use half::slice::HalfFloatSliceExt;
use smallvec::SmallVec;

use super::Place;
use crate::base::dtype::DType;
use crate::base::shape::{Shape, View};
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::forms::row::fill;
use crate::exec::cpu::job::Job;
use crate::exec::cpu::operands::input::Input;
use crate::exec::cpu::operands::output::{for_each, parts, split};
use crate::exec::cpu::program::Hole;
use crate::exec::cpu::tape::machine::Machine;
use crate::exec::cpu::tape::{TILE, Tape};
use crate::expr::{Node, Ref};
use crate::plan::{MatMulForm, Source, Space, Spread};

/// The operands of a product of `f32`.
pub(super) struct Floats<'a> {
    /// Of one product: m, n, k.
    pub size: [usize; 3],
    /// How many products there are.
    pub count: usize,
    pub x: Matrices<'a>,
    pub w: Matrices<'a>,
}

impl<'a> Floats<'a> {
    /// The products, as one of a tall matrix if there is but one right operand.
    pub fn new(product: &MatMulForm, [mut x, mut w]: [Matrices<'a>; 2]) -> Self {
        let mut m = product.m;
        let mut count: usize = product.batch.iter().product();
        if !product.batch.is_empty() && w.is_shared() && x.fold_batch() {
            w.view.dims.drain(..product.batch.len());
            w.view.strides.drain(..product.batch.len());
            m *= count;
            count = 1;
        }
        let size @ [m, n, k] = [m, product.n, product.k];
        assert!(x.lies_in_memory(count, [m, k]) && w.lies_in_memory(count, [k, n]));
        Self { size, count, x, w }
    }
}

/// A stack of matrices in memory, over `batch ++ [rows, columns]`.
pub(in crate::exec::cpu) struct Matrices<'a> {
    data: Data<'a>,
    view: View,
}

/// Elements as they are stored.
enum Data<'a> {
    Words(Cow<'a, [u32]>),
    Halves(&'a [f16]),
    /// Not stored: computed where they are copied.
    Computed(Computed<'a>),
}

/// What a prologue makes of its operands, in row-major order.
struct Computed<'a> {
    tape: &'a Tape,
    inputs: Vec<Option<Input<'a>>>,
    len: usize,
}

impl<'a> Matrices<'a> {
    /// Both operands of `product`. If it is done by blocks, elements of 16 bits are given as they are; if `piecemeal`,
    /// windows are computed where they are copied.
    pub fn of(
        job: &Job<'a>,
        product: &MatMulForm,
        by_blocks: bool,
        piecemeal: bool,
    ) -> Result<[Self; 2], DeviceError> {
        let &MatMulForm { ref batch, m, n, k, ref spread, x, w, .. } = product;
        let (halves, piecemeal) = (by_blocks, by_blocks && piecemeal);
        let x = Self::new(job, (Space::X, x), [m, k], batch, halves)?;
        let w = match spread {
            Some(spread) => Self::of_windows(job, product, spread, piecemeal),
            None => Self::new(job, (Space::W, w), [k, n], batch, halves),
        };
        Ok([x, w?])
    }

    /// The operand's memory if `root` only loads it, else what `root` computes.
    pub fn new(
        job: &Job<'a>,
        (space, root): (Space, Ref),
        size: [usize; 2],
        batch: &[usize],
        halves: bool,
    ) -> Result<Self, DeviceError> {
        if let Node::Load(n) = job.step.expr.node(root) {
            let operand = &job.step.operands[usize::from(n)];
            if let Source::Value(value) = operand.source
                && let Some(buffer) = &job.values[value.index()]
                && operand.view.is_inside(buffer.len())
            {
                let data = match operand.dtype {
                    DType::F32 | DType::I32 | DType::U32 => {
                        Some(Data::Words(Cow::Borrowed(buffer.words())))
                    }
                    DType::F16 if halves => Some(Data::Halves(cast_slice(buffer.bytes()))),
                    DType::F16 | DType::Bool => None,
                };
                if let Some(data) = data {
                    return Ok(Self { data, view: operand.view.clone() });
                }
            }
        }
        let dims: SmallVec<[usize; 8]> = batch.iter().copied().chain(size).collect();
        Self::computed(job, space, root, &dims, dims.len()).stored()
    }

    /// The right operand's windows, stored unless they are wanted `piecemeal`.
    fn of_windows(
        job: &Job<'a>,
        product: &MatMulForm,
        spread: &Spread,
        piecemeal: bool,
    ) -> Result<Self, DeviceError> {
        let batch = &product.batch;
        let dims: SmallVec<[usize; 8]> = batch.iter().copied().chain(spread.dims()).collect();
        let windows = Self::computed(job, Space::W, product.w, &dims, batch.len());
        let mut windows = if piecemeal { windows } else { windows.stored()? };
        // Along the axes of k and n it is contiguous.
        let view = &mut windows.view;
        view.dims.truncate(batch.len());
        view.strides.truncate(batch.len());
        view.dims.extend([product.k, product.n]);
        view.strides.extend([product.n as i64, 1]);
        Ok(windows)
    }

    /// What the prologue makes over the space of `dims`, but once along those of the `free` first axes on which nothing
    /// depends.
    fn computed(job: &Job<'a>, space: Space, root: Ref, dims: &[usize], free: usize) -> Self {
        let mut view = View::contiguous(&dims.into());
        let dims = view.dims.clone();
        for (axis, dim) in view.dims.iter_mut().enumerate().take(free) {
            let mut operands = job.step.operands.iter().filter(|operand| operand.space == space);
            if operands.all(|operand| operand.view.strides[axis] == 0) {
                *dim = 1;
            }
        }
        let shape: Shape = view.shape();
        let inputs = job.inputs_through(space, |whole| {
            Cow::Owned(View { dims: view.dims.clone(), ..whole.clone() })
        });
        let hole = match space {
            Space::W | Space::Key => Hole::Right,
            Space::Value => Hole::Values,
            Space::Scores => Hole::Scores,
            _ => Hole::Before,
        };
        let tape = job.tape(hole, &[root], &inputs);
        let mut view = View::contiguous(&shape);
        for (stride, (&kept, &dim)) in view.strides.iter_mut().zip(view.dims.iter().zip(&dims)) {
            if kept != dim {
                *stride = 0;
            }
        }
        let data = Data::Computed(Computed { tape, inputs, len: shape.elements() });
        Self { data, view: View { dims, ..view } }
    }

    /// With elements that are stored.
    fn stored(self) -> Result<Self, DeviceError> {
        let Data::Computed(Computed { tape, inputs, len }) = self.data else { return Ok(self) };
        let mut stored = [HostBuffer::try_zeroed(DType::U32, len)?];
        for_each(
            split(&mut stored, len, parts(len as u64 * (tape.flops() + 2)), TILE),
            || Machine::new(tape),
            |machine, mut chunk| chunk.write(machine, &inputs, &[]),
        );
        let [stored] = stored;
        Ok(Self { data: Data::Words(Cow::Owned(stored.into_words())), ..self })
    }

    fn batch(&self) -> usize {
        self.view.dims.len() - 2
    }

    /// Whether these are `count` matrices of `size`, all of whose elements are there.
    fn lies_in_memory(&self, count: usize, size: [usize; 2]) -> bool {
        let (batch, one) = self.view.dims.split_at(self.batch());
        one == size && batch.iter().product::<usize>() == count && self.view.is_inside(self.len())
    }

    /// Whether all of the batch is one matrix.
    fn is_shared(&self) -> bool {
        let batch = self.batch();
        (0..batch).all(|axis| self.view.dims[axis] == 1 || self.view.strides[axis] == 0)
    }

    /// Makes one tall matrix of the batch, if its matrices lie one below the other.
    fn fold_batch(&mut self) -> bool {
        let [rows, columns] = [self.batch(), self.batch() + 1];
        let (dims, strides) = (&self.view.dims, &self.view.strides);
        let mut next = strides[rows] * dims[rows] as i64;
        for axis in (0..rows).rev() {
            if dims[axis] != 1 && strides[axis] != next {
                return false;
            }
            next *= dims[axis] as i64;
        }
        self.view = View {
            dims: [dims[..columns].iter().product(), dims[columns]].as_slice().into(),
            strides: [strides[rows], strides[columns]].as_slice().into(),
            offset: self.view.offset,
        };
        true
    }

    /// The first element of matrix `index` of the batch.
    pub fn start(&self, index: usize) -> i64 {
        let mut rest = index;
        let mut start = self.view.offset;
        for axis in (0..self.batch()).rev() {
            start += (rest % self.view.dims[axis]) as i64 * self.view.strides[axis];
            rest /= self.view.dims[axis];
        }
        start
    }

    /// Strides of rows and columns.
    pub fn strides(&self) -> [isize; 2] {
        let batch = self.batch();
        [self.view.strides[batch] as isize, self.view.strides[batch + 1] as isize]
    }

    /// The elements as they are stored; none if that is in 16 bits, or nowhere.
    pub fn words(&self) -> &[u32] {
        match &self.data {
            Data::Words(words) => words,
            Data::Halves(_) | Data::Computed(_) => &[],
        }
    }

    fn len(&self) -> usize {
        match &self.data {
            Data::Words(words) => words.len(),
            Data::Halves(halves) => halves.len(),
            Data::Computed(computed) => computed.len,
        }
    }

    /// The elements as `f32`, where they are stored so.
    pub fn floats(&self) -> &[f32] {
        cast_slice(self.words())
    }

    /// Whether elements are found only by copying: they are stored in 16 bits, or not at all.
    pub fn is_only_copied(&self) -> bool {
        !matches!(self.data, Data::Words(_))
    }

    /// Whether elements are computed where they are copied.
    pub fn is_computed(&self) -> bool {
        matches!(self.data, Data::Computed(_))
    }

    /// Where matrix `index` lies, if it is of words.
    pub(super) fn place(&self, index: usize) -> Place {
        let start = self.floats().as_ptr().wrapping_offset(self.start(index) as isize);
        Place { start, strides: self.strides() }
    }

    /// The elements at `rows` and `columns` of matrix `index` as `f32` in row-major order, in `out`.
    pub fn copy(&self, index: usize, [rows, columns]: [Range<usize>; 2], out: &mut Vec<f32>) {
        let width = columns.len();
        out.resize(rows.len() * width, 0.0);
        let [row, column] = self.strides();
        let start = self.start(index) as isize
            + rows.start as isize * row
            + columns.start as isize * column;
        let at = |r: usize, c: usize| (start + r as isize * row + c as isize * column) as usize;
        match &self.data {
            // Matrices of what is computed are in row-major order.
            Data::Computed(Computed { tape, inputs, .. }) => {
                if let Some(Input::Gather(gather)) = tape.fetched(inputs) {
                    gather.fetch_rows(at(0, 0), row as usize, width, cast_slice_mut(out));
                    return;
                }
                let mut machine = Machine::new(tape);
                let run = if row == width as isize { out.len() } else { width };
                for (r, out) in out.chunks_mut(run).enumerate() {
                    fill(&mut machine, inputs, at(r, 0), cast_slice_mut(out));
                }
            }
            Data::Halves(halves) if column == 1 => {
                for (r, out) in out.chunks_mut(width).enumerate() {
                    halves[at(r, 0)..][..width].convert_to_f32_slice(out);
                }
            }
            Data::Halves(halves) => transposed(out, width, |r, c| halves[at(r, c)].to_f32()),
            Data::Words(words) => transposed(out, width, |r, c| f32::from_bits(words[at(r, c)])),
        }
    }
}

/// `out`, of rows of `width`, filled in squares: whichever index is the one that memory runs along, what is fetched
/// with one element is used before it is gone.
#[inline(always)]
fn transposed(out: &mut [f32], width: usize, element: impl Fn(usize, usize) -> f32) {
    const SIDE: usize = 16;
    for (band, out) in out.chunks_mut(SIDE * width).enumerate() {
        for left in (0..width).step_by(SIDE) {
            for (r, out) in out.chunks_mut(width).enumerate() {
                let right = width.min(left + SIDE);
                for (c, out) in (left..right).zip(&mut out[left..right]) {
                    *out = element(band * SIDE + r, c);
                }
            }
        }
    }
}
