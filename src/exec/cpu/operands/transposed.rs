//! Elements in another order of their axes, copied by squares.
//!
//! Where neighbours of the result lie far apart, a copy in the order of the result reads a whole line of the cache for each
//! element. A square reads its lines once. A transpose of 2048 by 2048 words then takes a quarter of the time.

use std::array;

use super::data::LaneData;
use super::walk::{Axes, Axis, Walk, collapse};
use crate::base::shape::View;
use crate::exec::HostBuffer;

/// Elements along a side of a square: a line of 64 bytes has as many words.
const SIDE: usize = 16;
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
        // Two lines are copied in turns at the rate of the memory.
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
    pub fn row_len(&self) -> usize {
        self.across.dim * self.between.iter().map(|axis| axis.dim).product::<usize>()
    }

    /// Copies the elements from `start` on to the bytes of `out`, which have the type of the value. Both are whole rows of
    /// [`row_len`](Self::row_len).
    pub fn copy(&self, start: usize, out: &mut [u8]) {
        match self.data {
            LaneData::Words(data) => self.rows(data, start, bytemuck::cast_slice_mut(out)),
            LaneData::Halves(data) => self.rows(data, start, bytemuck::cast_slice_mut(out)),
            LaneData::Bytes(data) => self.rows(data, start, out),
            LaneData::Iota => unreachable!("`of` takes a value"),
        }
    }

    fn rows<T: Copy + Default>(&self, data: &[T], start: usize, mut out: &mut [T]) {
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
                self.block(data, first, &mut block[column..], len);
            }
            (row, out) = (row + count, rest);
        }
    }

    /// Copies a block of rows of `pitch` elements, of which it has those along the innermost axis. The first element lies
    /// at `first`.
    fn block<T: Copy + Default>(&self, data: &[T], first: i64, out: &mut [T], pitch: usize) {
        let Axis { dim, stride } = self.across;
        let rows = out.len().div_ceil(pitch);
        for near in (0..dim).step_by(BLOCK) {
            for row in (0..rows).step_by(SIDE) {
                for column in (near..dim.min(near + BLOCK)).step_by(SIDE) {
                    let from = |k: usize| (first + (column + k) as i64 * stride) as usize + row;
                    let size = [SIDE.min(rows - row), SIDE.min(dim - column)];
                    square(data, from, &mut out[row * pitch + column..], pitch, size);
                }
            }
        }
    }
}

/// Copies a square to `rows` rows of `out`, `pitch` elements apart. The column `k` lies in `data` from `from(k)` on.
#[inline(always)]
fn square<T: Copy + Default>(
    data: &[T],
    from: impl Fn(usize) -> usize,
    out: &mut [T],
    pitch: usize,
    [rows, columns]: [usize; 2],
) {
    if [rows, columns] == [SIDE; 2] {
        let lines: [&[T; SIDE]; SIDE] = array::from_fn(|k| {
            data[from(k)..].first_chunk().expect("a column of a square has as many elements")
        });
        for (row, out) in out.chunks_mut(pitch).take(SIDE).enumerate() {
            for (out, line) in out.iter_mut().zip(lines) {
                *out = line[row];
            }
        }
        return;
    }
    for k in 0..columns {
        let line = &data[from(k)..][..rows];
        for (row, &element) in line.iter().enumerate() {
            out[row * pitch + k] = element;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_order_of_axes_is_copied_from_any_row() {
        const DIMS: [&[usize]; 4] = [&[33, 70], &[3, 17, 9], &[2, 16, 3, 64], &[5, 8, 3]];
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
                    for start in (0..len).step_by(row) {
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
        assert!(count > 12, "{count} orders were copied by squares");
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
}
