//! The matrix product form.

use std::borrow::Cow;

use gemm::Parallelism;
use multiversion::multiversion;
use rayon::prelude::*;
use smallvec::SmallVec;

use super::machine::{Machine, Span};
use super::output::{for_each, parts, split};
use super::tape::TILE;
use super::{Hole, Job};
use crate::dtype::{DType, Ty};
use crate::expr::{Node, Ref};
use crate::plan::{Source, Space, Spread};
use crate::run::HostBuffer;
use crate::shape::{Shape, View};

/// The form's description.
pub(super) struct Product<'a> {
    pub batch: &'a [usize],
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// The axes of k and n of the right operand, if there are several.
    pub spread: Option<&'a Spread>,
    pub x: Ref,
    pub w: Ref,
    pub acc: Ty,
}

/// Computes the outputs of a product.
pub(super) fn run(job: &Job<'_>, product: &Product<'_>, outputs: &mut [HostBuffer]) {
    let inputs = job.inputs(Space::Out, Clone::clone);
    let tape = job.tape(Hole::After, &job.roots(), &inputs);
    let len = outputs[0].len();
    // The product is written where a result will be: the epilogue reads an element before it is
    // overwritten.
    let host = outputs.iter().position(|output| output.dtype().size() == 4);
    let mut apart = if host.is_some() { Vec::new() } else { vec![0; len] };
    multiply(
        job,
        product,
        match host {
            Some(host) => outputs[host].words_mut(),
            None => &mut apart,
        },
    );
    if outputs.len() == 1 && host.is_some() && tape.is_acc(0) {
        return;
    }
    for_each(
        split(outputs, len, parts(len as u64 * (tape.flops() + 2)), TILE),
        || (Machine::new(tape), [0; TILE]),
        |(machine, acc), mut chunk| {
            for at in (0..chunk.len).step_by(TILE) {
                let acc = &mut acc[..TILE.min(chunk.len - at)];
                match host {
                    Some(host) => {
                        let bytes = &chunk.outputs[host].1[4 * at..4 * (at + acc.len())];
                        acc.copy_from_slice(bytemuck::cast_slice(bytes));
                    }
                    None => acc.copy_from_slice(&apart[chunk.start + at..][..acc.len()]),
                }
                let start = chunk.start + at;
                chunk.write_tile(machine, Span { inputs: &inputs, start, len: acc.len(), acc }, at);
            }
        },
    );
}

/// The sums, as lanes.
fn multiply(job: &Job<'_>, product: &Product<'_>, out: &mut [u32]) {
    if product.k == 0 {
        return out.fill(0);
    }
    let mut x = Matrices::new(job, Space::X, product.x, [product.m, product.k], product.batch);
    let mut w = match product.spread {
        Some(spread) => Matrices::of_windows(job, product, spread),
        None => Matrices::new(job, Space::W, product.w, [product.k, product.n], product.batch),
    };
    if product.acc != Ty::F32 {
        return integer_products(product, &x, &w, out);
    }
    let mut m = product.m;
    let mut count: usize = product.batch.iter().product();
    if w.is_shared() && x.fold_batch() {
        w.view.dims.drain(..product.batch.len());
        w.view.strides.drain(..product.batch.len());
        m *= count;
        count = 1;
    }
    let size = [m, product.n, product.k];
    let out = bytemuck::cast_slice_mut(out);
    let flops = (2 * m * product.n) as u64 * product.k as u64;
    if count >= rayon::current_num_threads() && parts(flops.saturating_mul(count as u64)) > 1 {
        let chunks = out.par_chunks_mut(m * product.n).enumerate();
        chunks.for_each(|(i, out)| gemm(size, &x, &w, i, out, Parallelism::None));
        return;
    }
    // Rayon(0) takes all threads.
    let parallel = if parts(flops) > 1 { Parallelism::Rayon(0) } else { Parallelism::None };
    for (i, out) in out.chunks_mut(m * product.n).enumerate() {
        gemm(size, &x, &w, i, out, parallel);
    }
}

/// A stack of matrices in memory, over `batch ++ [rows, columns]`.
struct Matrices<'a> {
    words: Cow<'a, [u32]>,
    view: View,
}

impl<'a> Matrices<'a> {
    /// The operand's memory if `root` only loads it, else what `root` computes.
    fn new(job: &Job<'a>, space: Space, root: Ref, size: [usize; 2], batch: &[usize]) -> Self {
        if let Node::Load(n) = job.step.expr.node(root) {
            let operand = &job.step.operands[usize::from(n)];
            if let Source::Value(value) = operand.source
                && matches!(operand.dtype, DType::F32 | DType::I32 | DType::U32)
                && let Some(buffer) = &job.values[value.index()]
                && operand.view.is_inside(buffer.len())
            {
                return Self { words: Cow::Borrowed(buffer.words()), view: operand.view.clone() };
            }
        }
        let dims: SmallVec<[usize; 8]> = batch.iter().copied().chain(size).collect();
        Self::computed(job, space, root, &dims, dims.len())
    }

    /// The right operand's windows, written out.
    fn of_windows(job: &Job<'a>, product: &Product<'_>, spread: &Spread) -> Self {
        let batch = product.batch;
        let dims: SmallVec<[usize; 8]> = batch.iter().copied().chain(spread.dims()).collect();
        let mut windows = Self::computed(job, Space::W, product.w, &dims, batch.len());
        // Along the axes of k and n it is contiguous.
        let view = &mut windows.view;
        view.dims.truncate(batch.len());
        view.strides.truncate(batch.len());
        view.dims.extend([product.k, product.n]);
        view.strides.extend([product.n as i64, 1]);
        windows
    }

    /// Runs the prologue over the space of `dims`, but once along those of the `free` first axes on which nothing depends.
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
        let inputs = job.inputs(space, |whole| View { dims: view.dims.clone(), ..whole.clone() });
        let hole = if space == Space::W { Hole::Right } else { Hole::Before };
        let tape = job.tape(hole, &[root], &inputs);
        let mut computed = [HostBuffer::zeroed(DType::U32, shape.elements())];
        let len = shape.elements();
        for_each(
            split(&mut computed, len, parts(len as u64 * (tape.flops() + 2)), TILE),
            || Machine::new(tape),
            |machine, mut chunk| chunk.write(machine, &inputs, &[]),
        );
        let [computed] = computed;
        let mut view = View::contiguous(&shape);
        for (stride, (&kept, &dim)) in view.strides.iter_mut().zip(view.dims.iter().zip(&dims)) {
            if kept != dim {
                *stride = 0;
            }
        }
        Self { words: Cow::Owned(computed.into_words()), view: View { dims, ..view } }
    }

    fn batch(&self) -> usize {
        self.view.dims.len() - 2
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
    fn start(&self, index: usize) -> i64 {
        let mut rest = index;
        let mut start = self.view.offset;
        for axis in (0..self.batch()).rev() {
            start += (rest % self.view.dims[axis]) as i64 * self.view.strides[axis];
            rest /= self.view.dims[axis];
        }
        start
    }

    /// Strides of rows and columns.
    fn strides(&self) -> [isize; 2] {
        let batch = self.batch();
        [self.view.strides[batch] as isize, self.view.strides[batch + 1] as isize]
    }
}

/// `out` = matrix `index` of `x` times that of `w`, for `[m, n, k]`.
fn gemm(
    [m, n, k]: [usize; 3],
    x: &Matrices<'_>,
    w: &Matrices<'_>,
    index: usize,
    out: &mut [f32],
    parallel: Parallelism,
) {
    assert!(
        out.len() == m * n && x.view.is_inside(x.words.len()) && w.view.is_inside(w.words.len())
    );
    let (xs, ws): (&[f32], &[f32]) =
        (bytemuck::cast_slice(&x.words), bytemuck::cast_slice(&w.words));
    let ([x_row, x_column], [w_row, w_column]) = (x.strides(), w.strides());
    let (x_start, w_start) = (x.start(index) as usize, w.start(index) as usize);
    // SAFETY: both views lie inside their slices and `out` has m·n elements, as asserted; `index` is
    // below the batch, whose dimensions are those of the views, as m, n and k are.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            xs.as_ptr().wrapping_add(x_start),
            x_column,
            x_row,
            ws.as_ptr().wrapping_add(w_start),
            w_column,
            w_row,
            0.0,
            1.0,
            false,
            false,
            false,
            parallel,
        );
    }
}

/// Products modulo 2³², which are the same with and without a sign.
fn integer_products(product: &Product<'_>, x: &Matrices<'_>, w: &Matrices<'_>, out: &mut [u32]) {
    let Product { m, n, k, .. } = *product;
    let work = |(row, out): (usize, &mut [u32])| {
        let ([x_row, x_column], [w_row, w_column]) = (x.strides(), w.strides());
        let x_start = x.start(row / m) as isize + (row % m) as isize * x_row;
        let w_start = w.start(row / m) as isize;
        out.fill(0);
        for i in 0..k as isize {
            let factor = x.words[(x_start + i * x_column) as usize];
            let start = w_start + i * w_row;
            if w_column == 1 {
                add_scaled(out, factor, &w.words[start as usize..][..n]);
            } else {
                for (j, out) in out.iter_mut().enumerate() {
                    let at = start + j as isize * w_column;
                    *out = out.wrapping_add(factor.wrapping_mul(w.words[at as usize]));
                }
            }
        }
    };
    let rows: SmallVec<[(usize, &mut [u32]); 8]> = out.chunks_mut(n).enumerate().collect();
    if parts((rows.len() * n) as u64 * k as u64) > 1 {
        rows.into_vec().into_par_iter().for_each(work);
    } else {
        rows.into_iter().for_each(work);
    }
}

/// `out += factor·x`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn add_scaled(out: &mut [u32], factor: u32, x: &[u32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = out.wrapping_add(factor.wrapping_mul(x));
    }
}
