//! Elements in another order of their axes, copied by squares.
//!
//! A copy in the order of the result reads a whole line of the cache for each element, if neighbours of the result lie far
//! apart. A square reads its lines once: a transpose of 2048 by 2048 words takes an eighth of the time.

use std::{array, slice};

use bytemuck::Pod;
use multiversion::multiversion;
use smallvec::SmallVec;

use super::data::LaneData;
use super::output::{OutputPart, for_each, parts_with_spinning_helpers, split};
use super::walk::{Axes, Axis, Walk, collapse};
use crate::base::shape::View;
use crate::exec::HostBuffer;
use crate::exec::cpu::vectors::prefetch;
use crate::exec::cpu::vectors::square::{SIDE, SquareKernels};
use crate::exec::threads;

/// The cost of an element, in words moved in order: it takes 0.2 to 0.9 ns on one thread.
const COST: u64 = 24;
/// Elements along a side of a block of squares, whose lines share pages.
const BLOCK: usize = 4 * SIDE;
/// Least elements along the axis that is contiguous in memory. With fewer, a copy by strides reads whole lines too.
const LEAST: usize = 8;

/// A value that is read through a permutation of its axes.
#[derive(Debug)]
pub(crate) struct Transposed<'a> {
    data: LaneData<'a>,
    offset: i64,
    /// The innermost axis of the result, whose elements lie apart in memory.
    across: Axis<i64>,
    /// The axes between the two, innermost first.
    between: Axes<i64>,
    /// Elements along the axis that is contiguous in memory.
    along: usize,
    /// The axes outside of it, innermost first.
    outside: Axes<i64>,
}

impl<'a> Transposed<'a> {
    /// The elements of `value` through `view`, all of which lies inside. `None` if a copy in order is as good.
    pub fn of(view: &View, value: &'a HostBuffer) -> Option<Self> {
        let axes = view.dims.iter().zip(&view.strides).rev();
        let axes = collapse(axes.map(|(&dim, &stride)| Axis { dim, stride }));
        let (&across, outer) = axes.split_first()?;
        let at = outer.iter().position(|axis| axis.stride == 1)?;
        let along = outer[at].dim;
        // With two columns, a plain copy already runs at the rate of memory.
        let is_far = across.dim > 2 && across.stride.unsigned_abs() > 1 && along >= LEAST;
        is_far.then(|| Self {
            data: LaneData::of(value),
            offset: view.offset,
            across,
            between: outer[..at].into(),
            along,
            outside: outer[at + 1..].into(),
        })
    }

    /// Elements of the result for each element along the contiguous axis.
    fn row_len(&self) -> usize {
        self.across.dim * self.between.iter().map(|axis| axis.dim).product::<usize>()
    }

    /// Elements along a side of a square.
    fn side(&self) -> usize {
        match self.data {
            LaneData::Halves(_) => 2 * SIDE,
            LaneData::Bytes(_) => 4 * SIDE,
            LaneData::Words(_) | LaneData::Iota => SIDE,
        }
    }

    /// Rows of the result that one of `threads` threads copies together, of `len` elements in all: those of a square, if
    /// there are enough.
    fn rows_together(&self, len: usize, threads: usize) -> usize {
        self.side().min((len / self.row_len().max(1)).div_ceil(threads)).max(1)
    }

    /// Copies all elements to `out`, which has the type of the value.
    pub fn copy_to(&self, out: &mut HostBuffer) {
        let parts = parts_with_spinning_helpers(COST * out.len() as u64);
        let unit = self.rows_together(out.len(), threads::count()) * self.row_len();
        let outputs = slice::from_mut(out);
        let work = |(): &mut (), part: OutputPart<'_>| {
            for (_, bytes) in part.outputs {
                self.copy(part.start, bytes);
            }
        };
        for_each(split(outputs, parts, unit), || (), work);
    }

    /// Copies the elements from `start` on to the bytes of `out`, which have the type of the value. `start` and the
    /// length of `out` are whole rows of [`row_len`](Self::row_len).
    fn copy(&self, start: usize, out: &mut [u8]) {
        match self.data {
            LaneData::Words(data) => {
                let kernels = SquareKernels::native();
                let square = |first, out: &mut [u32], pitch| {
                    kernels.transpose(data, first, self.across.stride, out, pitch);
                };
                self.rows(data, start, bytemuck::cast_slice_mut(out), square);
            }
            LaneData::Halves(data) => {
                let (data, out) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(out));
                self.narrow(data, start, out, to_half_words);
            }
            LaneData::Bytes(data) => self.narrow(data, start, out, to_bytes),
            LaneData::Iota => unreachable!("`of` takes a value"),
        }
    }

    /// As [`copy`](Self::copy), for elements of which `N` are a word. Their squares are `N` squares of words, whose elements
    /// `of_words` takes apart.
    fn narrow<T: Pod, const N: usize>(
        &self,
        data: &[T],
        start: usize,
        out: &mut [T],
        of_words: impl Fn(&[Square<u32>; N], &mut [T]) + Copy,
    ) {
        let kernels = SquareKernels::native();
        let side = self.side();
        let [mut lines, mut turned, mut result] = [[[0_u32; SIDE * SIDE]; N]; 3];
        self.rows(data, start, out, |first, out, pitch| {
            let copies = lines.as_flattened_mut().as_chunks_mut::<SIDE>().0;
            for (k, copy) in copies.iter_mut().enumerate() {
                let line = &data[(first + k as i64 * self.across.stride) as usize..];
                prefetch::line(line.as_ptr().wrapping_add(BLOCK).cast());
                bytemuck::cast_slice_mut(copy).copy_from_slice(&line[..side]);
            }
            for (lines, turned) in lines.iter().zip(&mut turned) {
                kernels.transpose(lines, 0, SIDE as i64, turned, SIDE);
            }
            let result = bytemuck::cast_slice_mut(result.as_flattened_mut());
            of_words(&turned, result);
            for (out, row) in out.chunks_mut(pitch).zip(result.chunks_exact(side)) {
                out[..side].copy_from_slice(row);
            }
        });
    }

    /// Copies rows of the result. `square` copies a square, of which it takes the position of the first element.
    fn rows<T: Copy>(
        &self,
        data: &[T],
        start: usize,
        mut out: &mut [T],
        mut square: impl FnMut(i64, &mut [T], usize),
    ) {
        let len = self.row_len();
        let mut row = start / len;
        while !out.is_empty() {
            let at = row % self.along;
            let count = BLOCK.min(self.along - at).min(out.len() / len);
            let (block, rest) = out.split_at_mut(count * len);
            let first = Walk::from(&self.outside, self.offset, row / self.along).position;
            let mut between = Walk::from(&self.between, first + at as i64, 0);
            for column in (0..len).step_by(self.across.dim) {
                let (first, _) = between.next(1);
                self.block(data, first, (&mut block[column..], len), &mut square);
            }
            (row, out) = (row + count, rest);
        }
    }

    /// Copies a block of rows of `pitch` elements, of which it has those along the innermost axis. The first element lies
    /// at `first`.
    fn block<T: Copy>(
        &self,
        data: &[T],
        first: i64,
        (out, pitch): (&mut [T], usize),
        square: &mut impl FnMut(i64, &mut [T], usize),
    ) {
        let Axis { dim, stride } = self.across;
        let (rows, side) = (out.len().div_ceil(pitch), self.side());
        if dim < side {
            return self.rectangle(data, first, out, pitch, [rows, dim]);
        }
        for near in (0..dim).step_by(BLOCK) {
            for row in (0..rows).step_by(side) {
                for column in (near..dim.min(near + BLOCK)).step_by(side) {
                    let first = first + column as i64 * stride + row as i64;
                    let out = &mut out[row * pitch + column..];
                    let size = [side.min(rows - row), side.min(dim - column)];
                    if size == [side; 2] {
                        square(first, out, pitch);
                    } else {
                        self.rectangle(data, first, out, pitch, size);
                    }
                }
            }
        }
    }

    /// Copies a rectangle of so many rows and columns of the result.
    fn rectangle<T: Copy>(
        &self,
        data: &[T],
        first: i64,
        out: &mut [T],
        pitch: usize,
        [rows, columns]: [usize; 2],
    ) {
        let line = |k: usize| &data[(first + k as i64 * self.across.stride) as usize..][..rows];
        if [columns, pitch] == [3; 2] {
            return in_turns(array::from_fn::<_, 3, _>(line), &mut out[..3 * rows]);
        }
        for near in (0..columns).step_by(SIDE) {
            let lines: SmallVec<[&[T]; SIDE]> =
                (near..columns.min(near + SIDE)).map(line).collect();
            for (row, out) in out[near..].chunks_mut(pitch).take(rows).enumerate() {
                for (out, line) in out.iter_mut().zip(&lines) {
                    *out = line[row];
                }
            }
        }
    }
}

/// The elements of a square.
type Square<T> = [T; SIDE * SIDE];

/// Sets `out` to the halves of two squares of words: first the lower halves of the first rows.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn to_half_words(words: &[Square<u32>; 2], out: &mut [u16]) {
    take_apart(words, out, |word| word as u16);
}

/// Sets `out` to the bytes of four squares of words.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn to_bytes(words: &[Square<u32>; 4], out: &mut [u8]) {
    take_apart(words, out, |word| word as u8);
}

/// Sets `out` to the elements of squares of words, of which each holds `N`. Row `N·k + part` of `out` takes part `part` of row
/// `k` of each square in turn. `lowest` returns the first part of a word.
#[inline(always)]
fn take_apart<T, const N: usize>(
    words: &[Square<u32>; N],
    out: &mut [T],
    lowest: impl Fn(u32) -> T,
) {
    let rows = out.as_chunks_mut::<SIDE>().0.chunks_exact_mut(N);
    for (at, row) in rows.enumerate() {
        for (square, out) in words.iter().zip(row) {
            let words = square.as_chunks::<SIDE>().0[at / N];
            *out = words.map(|word| lowest(word >> (32 / N * (at % N))));
        }
    }
}

/// Copies the elements of lines in turns, as the colours of an image are stored for each point.
fn in_turns<T: Copy, const N: usize>(lines: [&[T]; N], out: &mut [T]) {
    let (rows, _) = out.as_chunks_mut::<N>();
    let lines = lines.map(|line| &line[..rows.len()]);
    for (row, out) in rows.iter_mut().enumerate() {
        *out = lines.map(|line| line[row]);
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn any_order_of_axes_is_copied_from_any_row() {
        // Miri is slow.
        const LONG: usize = if cfg!(miri) { 18 } else { 64 };
        const DIMS: [&[usize]; 4] = [&[33, LONG + 6], &[3, 17, 9], &[2, 16, 3, LONG], &[5, 8, 3]];
        let mut count = 0;
        for dims in DIMS {
            let len: usize = dims.iter().product();
            let own = View::contiguous(&dims.into());
            let data: Vec<u32> = (0..len as u32 + 3).collect();
            let words = HostBuffer::from_slice(&data);
            let bytes: Vec<bool> = data.iter().map(|x| x % 3 == 0).collect();
            let bools = HostBuffer::from_slice(&bytes);
            for order in orders(dims.len()) {
                for reversed in [false, true] {
                    let mut view = View {
                        dims: order.iter().map(|&axis| dims[axis]).collect(),
                        strides: order.iter().map(|&axis| own.strides[axis]).collect(),
                        offset: 3,
                    };
                    if reversed {
                        let last = dims.len() - 1;
                        view.offset += (view.dims[last] as i64 - 1) * view.strides[last];
                        view.strides[last] = -view.strides[last];
                    }
                    let Some(transposed) = Transposed::of(&view, &words) else { continue };
                    count += 1;
                    let want: Vec<u32> = (0..len).map(|at| data[index(&view, at)]).collect();
                    let row = transposed.row_len();
                    let starts = if cfg!(miri) { len / 3 / row + 1 } else { 1 };
                    for start in (0..len).step_by(starts * row) {
                        for rows in [1, 2, (len - start) / row] {
                            let range = start..(start + rows * row).min(len);
                            let mut got = vec![u32::MAX; range.len()];
                            transposed.copy(start, bytemuck::cast_slice_mut(&mut got));
                            assert_eq!(got, want[range], "{view:?}");
                        }
                    }
                    let mut got = vec![7; len];
                    Transposed::of(&view, &bools).expect("the same view").copy(0, &mut got);
                    assert!(got.iter().zip(&want).all(|(&got, x)| got == u8::from(x % 3 == 0)));
                }
            }
        }
        assert_eq!(count, 36, "orders that are copied by squares");
    }

    /// The index of the element at position `at` of a view.
    fn index(view: &View, mut at: usize) -> usize {
        let mut index = view.offset;
        for (&dim, &stride) in view.dims.iter().zip(&view.strides).rev() {
            index += (at % dim) as i64 * stride;
            at /= dim;
        }
        index as usize
    }

    /// All orders of so many axes.
    fn orders(axes: usize) -> Vec<Vec<usize>> {
        if axes == 0 {
            return vec![vec![]];
        }
        let insert = |order: Vec<usize>| {
            (0..axes).map(move |at| {
                let mut order = order.clone();
                order.insert(at, axes - 1);
                order
            })
        };
        orders(axes - 1).into_iter().flat_map(insert).collect()
    }

    #[test]
    fn lines_that_lie_in_order_are_no_transpose() {
        let data = HostBuffer::from_slice(&vec![1_u32; 10_000]);
        let is = |dims: &[usize], strides: &[i64]| {
            let view = View { dims: dims.into(), strides: strides.into(), offset: 0 };
            Transposed::of(&view, &data).is_some()
        };
        assert!(is(&[100, 100], &[1, 100]) && is(&[16, 3], &[1, 16]));
        assert!(!is(&[100, 100], &[100, 1]) && !is(&[20, 10, 50], &[50, 1000, 1]), "rows");
        assert!(!is(&[100, 100], &[1, 0]) && !is(&[100, 50], &[0, 2]), "repeats and every second");
        assert!(!is(&[3, 100], &[1, 3]), "a line holds several");
        assert!(!is(&[100, 2], &[1, 100]), "two lines in turns");
    }

    #[test]
    fn threads_copy_whole_squares_where_there_are_enough_rows() {
        let words = HostBuffer::from_slice(&vec![1_u32; 64 * 100]);
        let halves = HostBuffer::from_slice(&vec![f16::ONE; 64 * 100]);
        let bools = HostBuffer::from_slice(&vec![true; 64 * 100]);
        let rows = |data, dims: [usize; 2], threads| {
            let view =
                View { dims: dims[..].into(), strides: [1, dims[0] as i64][..].into(), offset: 0 };
            let transposed = Transposed::of(&view, data).expect("columns lie apart");
            transposed.rows_together(dims[0] * dims[1], threads)
        };
        let of_words = |dims, threads| rows(&words, dims, threads);
        assert_eq!(
            [of_words([64, 100], 1), of_words([64, 100], 4), of_words([100, 64], 4)],
            [16; 3]
        );
        assert_eq!(
            [of_words([16, 400], 2), of_words([16, 400], 16), of_words([16, 400], 64)],
            [8, 1, 1]
        );
        assert_eq!([rows(&halves, [64, 100], 1), rows(&halves, [64, 100], 2)], [32; 2]);
        assert_eq!([rows(&bools, [64, 100], 1), rows(&bools, [100, 64], 1)], [64; 2]);
    }
}
