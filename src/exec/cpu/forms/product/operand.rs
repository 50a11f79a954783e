//! The operands of a product, in memory or computed by their prologues.

use std::borrow::Cow;
use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};
use half::f16;
use smallvec::SmallVec;

use super::images;
use super::kernel::{Kernel, Rows};
use crate::base::dtype::DType;
use crate::base::shape::{Shape, View};
use crate::error::DeviceError;
use crate::exec::cpu::forms::row::fill;
use crate::exec::cpu::operands::halves::to_floats;
use crate::exec::cpu::operands::{
    BoundInput, PanelPieces, Windows, fill_by_squares, for_each_part,
};
use crate::exec::cpu::tape::{Machine, TILE, Tape};
use crate::exec::cpu::{ExprHole, StepJob};
use crate::exec::{ArrangedCopy, HostBuffer};
use crate::expr::Ref;
use crate::plan::{ProductForm, Space, Spread};

/// A stack of matrices in memory, over `batch ++ [rows, columns]`.
pub(crate) struct Matrices<'a> {
    data: MatrixData<'a>,
    pub(super) view: View,
    /// The holder of copies beside the data, if these are a value.
    pub(super) arranged: Option<&'a ArrangedCopy>,
    /// True if the data are a resident, which most runs find unchanged.
    pub(super) is_resident: bool,
}

/// Elements as they are stored.
enum MatrixData<'a> {
    Words(Cow<'a, [u32]>),
    Halves(&'a [f16]),
    /// Elements of images, of which there are so many in all windows together.
    Windows(Box<Windows<'a>>, usize),
    /// Elements that are not stored, but computed when they are copied.
    Computed(ComputedMatrices<'a>),
}

/// The values of a prologue, in row-major order.
struct ComputedMatrices<'a> {
    tape: &'a Tape,
    inputs: Vec<Option<BoundInput<'a>>>,
    len: usize,
}

impl<'a> Matrices<'a> {
    /// Returns both operands of `product`. Unless all elements must be `stored` as words, elements of 16 bits stay as they
    /// are, and windows are taken from images or computed when they are copied.
    pub fn of(
        job: &StepJob<'a>,
        product: &ProductForm,
        stored: bool,
    ) -> Result<[Self; 2], DeviceError> {
        let &ProductForm { ref batch, m, n, k, ref spread, x, w, .. } = product;
        let x = Self::new(job, (Space::X, x), [m, k], batch, !stored)?;
        let w = match spread {
            Some(spread) => Self::of_windows(job, product, spread, stored),
            None => Self::new(job, (Space::W, w), [k, n], batch, !stored),
        };
        Ok([x, w?])
    }

    /// Returns the operand's memory if `root` only loads it, else the stored values of `root`.
    pub fn new(
        job: &StepJob<'a>,
        (space, root): (Space, Ref),
        size: [usize; 2],
        batch: &[usize],
        halves: bool,
    ) -> Result<Self, DeviceError> {
        if let Some((operand, value, buffer)) = job.loaded(root)
            && operand.view.is_inside(buffer.len())
        {
            let data = match operand.dtype {
                DType::F32 | DType::I32 | DType::U32 => {
                    Some(MatrixData::Words(Cow::Borrowed(buffer.words())))
                }
                DType::F16 if halves => Some(MatrixData::Halves(cast_slice(buffer.bytes()))),
                DType::F16 | DType::Bool => None,
            };
            if let Some(data) = data {
                let arranged = Some(buffer.arranged());
                let is_resident = job.is_resident(value);
                return Ok(Self { data, view: operand.view.clone(), arranged, is_resident });
            }
        }
        let dims: SmallVec<[usize; 8]> = batch.iter().copied().chain(size).collect();
        Self::computed(job, space, root, &dims, dims.len()).stored()
    }

    /// Returns the right operand's windows, all `stored` or copied in parts.
    fn of_windows(
        job: &StepJob<'a>,
        product: &ProductForm,
        spread: &Spread,
        stored: bool,
    ) -> Result<Self, DeviceError> {
        let batch = &product.batch;
        let dims: SmallVec<[usize; 8]> = batch.iter().copied().chain(spread.dims()).collect();
        let images = if stored { None } else { images::windows(job, product, spread) };
        let mut windows = match images {
            Some(windows) => {
                let data = MatrixData::Windows(Box::new(windows), dims.iter().product());
                let view = View::contiguous(&dims[..].into());
                Self { data, view, arranged: None, is_resident: false }
            }
            None => {
                let computed = Self::computed(job, Space::W, product.w, &dims, batch.len());
                if stored { computed.stored()? } else { computed }
            }
        };
        // The view is contiguous along the axes of k and n.
        let view = &mut windows.view;
        view.dims.truncate(batch.len());
        view.strides.truncate(batch.len());
        view.dims.extend([product.k, product.n]);
        view.strides.extend([product.n as i64, 1]);
        Ok(windows)
    }

    /// Returns the values of the prologue over the space of `dims`. Along those of the `free` first axes on which no
    /// operand depends, they are computed once.
    fn computed(job: &StepJob<'a>, space: Space, root: Ref, dims: &[usize], free: usize) -> Self {
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
            Space::W | Space::Key => ExprHole::Right,
            Space::Value => ExprHole::Values,
            Space::Scores => ExprHole::Scores,
            _ => ExprHole::Before,
        };
        let tape = job.tape(hole, &[root], &inputs);
        let mut view = View::contiguous(&shape);
        for (stride, (&kept, &dim)) in view.strides.iter_mut().zip(view.dims.iter().zip(&dims)) {
            if kept != dim {
                *stride = 0;
            }
        }
        let data = MatrixData::Computed(ComputedMatrices { tape, inputs, len: shape.elements() });
        Self { data, view: View { dims, ..view }, arranged: None, is_resident: false }
    }

    /// Stores the elements, if they are computed.
    fn stored(self) -> Result<Self, DeviceError> {
        let MatrixData::Computed(ComputedMatrices { tape, inputs, len }) = self.data else {
            return Ok(self);
        };
        let mut stored = [HostBuffer::try_zeroed(DType::U32, len)?];
        for_each_part(
            &mut stored,
            len as u64 * (tape.flops() + 2),
            TILE,
            || Machine::new(tape),
            |machine, mut part| part.write(machine, &inputs, &[]),
        );
        let [stored] = stored;
        Ok(Self { data: MatrixData::Words(Cow::Owned(stored.into_words())), ..self })
    }

    fn batch(&self) -> usize {
        self.view.dims.len() - 2
    }

    /// Returns whether these are `count` matrices of `size`, all elements of which exist.
    pub(super) fn lies_in_memory(&self, count: usize, size: [usize; 2]) -> bool {
        let (batch, one) = self.view.dims.split_at(self.batch());
        one == size && batch.iter().product::<usize>() == count && self.view.is_inside(self.len())
    }

    /// Returns whether all of the batch is one matrix.
    pub(super) fn is_shared(&self) -> bool {
        let batch = self.batch();
        (0..batch).all(|axis| self.view.dims[axis] == 1 || self.view.strides[axis] == 0)
    }

    /// Makes one tall matrix of the batch if its matrices lie one below the other, and returns whether it did.
    pub(super) fn fold_batch(&mut self) -> bool {
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

    /// Index of the first element of matrix `index` of the batch.
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

    /// Returns whether columns are contiguous in memory, and rows are not.
    pub(super) fn has_columns(&self) -> bool {
        let [row, column] = self.strides();
        row == 1 && column > 1 && !self.is_only_copied()
    }

    /// The elements as they are stored; empty if they are stored in 16 bits, or not at all.
    pub fn words(&self) -> &[u32] {
        match &self.data {
            MatrixData::Words(words) => words,
            MatrixData::Halves(_) | MatrixData::Windows(..) | MatrixData::Computed(_) => &[],
        }
    }

    fn len(&self) -> usize {
        match &self.data {
            MatrixData::Words(words) => words.len(),
            MatrixData::Halves(halves) => halves.len(),
            MatrixData::Windows(_, len) => *len,
            MatrixData::Computed(computed) => computed.len,
        }
    }

    /// The elements as `f32`; empty if [`words`](Self::words) is.
    pub fn floats(&self) -> &[f32] {
        cast_slice(self.words())
    }

    /// Returns whether elements must be copied, since they are stored in 16 bits, or not at all.
    pub fn is_only_copied(&self) -> bool {
        !matches!(self.data, MatrixData::Words(_))
    }

    /// The windows of images that the matrices are, if they are.
    pub fn windows(&self) -> Option<&Windows<'a>> {
        match &self.data {
            MatrixData::Windows(windows, _) => Some(windows),
            _ => None,
        }
    }

    /// Copies the elements at `rows` and `columns` of matrix `index` to panels of so many columns, of which the last may
    /// have any elements beyond the last column. `copy` is memory for what cannot be copied at once.
    pub fn pack(
        &self,
        index: usize,
        [rows, columns]: [&Range<usize>; 2],
        panel: usize,
        (panels, copy): (&mut Vec<f32>, &mut Vec<f32>),
    ) {
        let (height, width) = (rows.len(), columns.len());
        panels.resize(width.next_multiple_of(panel) * height, 0.0);
        let [row, column] = self.strides();
        let start = self.start(index)
            + rows.start as i64 * row as i64
            + columns.start as i64 * column as i64;
        if let MatrixData::Windows(windows, _) = &self.data {
            return windows.pack(index, [rows, columns], panel, cast_slice_mut(panels));
        }
        if let MatrixData::Computed(ComputedMatrices { tape, inputs, .. }) = &self.data
            && let Some(BoundInput::Strided(strided)) = tape.fetched(inputs)
            && strided.fetch_panels(
                [start as usize, row as usize],
                [height, width],
                panel,
                cast_slice_mut(panels),
            )
        {
            return;
        }
        let kernel = Kernel::native();
        if let MatrixData::Words(words) = &self.data
            && (row, column > 1, panel) == (1, true, kernel.panel_width)
        {
            let from = Rows { data: cast_slice(&words[start as usize..]), stride: column as usize };
            return kernel.transpose([width, height], from, 1.0, panels);
        }
        let out = cast_slice_mut(panels);
        let mut pieces = PanelPieces::new(panel, height);
        pieces.push(0, 1, width);
        let (data, start, row) = match &self.data {
            MatrixData::Words(words) if column == 1 => (&words[..], start, row as i64),
            _ => {
                self.copy(index, [rows.clone(), columns.clone()], copy);
                (cast_slice(copy), 0, width as i64)
            }
        };
        let starts: Vec<i64> = (0..height as i64).map(|k| start + k * row).collect();
        pieces.copy(data, &starts, 1, out);
    }

    /// Copies the elements at `rows` and `columns` of matrix `index` to `out`, as `f32` in row-major order.
    pub fn copy(&self, index: usize, [rows, columns]: [Range<usize>; 2], out: &mut Vec<f32>) {
        let width = columns.len();
        out.resize(rows.len() * width, 0.0);
        if out.is_empty() {
            return;
        }
        let [row, column] = self.strides();
        let start = self.start(index) as isize
            + rows.start as isize * row
            + columns.start as isize * column;
        let at = |r: usize, c: usize| (start + r as isize * row + c as isize * column) as usize;
        match &self.data {
            // One panel is a matrix in row-major order.
            MatrixData::Windows(windows, _) => {
                windows.pack(index, [&rows, &columns], width, cast_slice_mut(out));
            }
            // Computed matrices are in row-major order.
            MatrixData::Computed(ComputedMatrices { tape, inputs, .. }) => {
                if let Some(BoundInput::Strided(strided)) = tape.fetched(inputs) {
                    strided.fetch_rows(at(0, 0), row as usize, width, cast_slice_mut(out));
                    return;
                }
                let mut machine = Machine::new(tape);
                let run = if row == width as isize { out.len() } else { width };
                for (r, out) in out.chunks_mut(run).enumerate() {
                    fill(&mut machine, inputs, at(r, 0), cast_slice_mut(out));
                }
            }
            MatrixData::Halves(halves) if column == 1 => {
                for (r, out) in out.chunks_mut(width).enumerate() {
                    to_floats(&halves[at(r, 0)..][..width], out);
                }
            }
            MatrixData::Halves(halves) => {
                fill_by_squares(out, width, |r, c| halves[at(r, c)].to_f32());
            }
            MatrixData::Words(words) => {
                fill_by_squares(out, width, |r, c| f32::from_bits(words[at(r, c)]));
            }
        }
    }
}
